#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# install.sh [--remove] - `make install` and `make uninstall`: the library, its header, the programs and their manual
# pages into PREFIX (/usr/local), libraries into its LIBDIR (lib); below DESTDIR where one is set. Builds what it
# installs and no more. Root builds as the user whose tree this is, and leaves nothing of root's in it.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/release
prefix=${PREFIX:-/usr/local} libdir=${LIBDIR:-lib} destdir=${DESTDIR-}
prefix=${prefix%"${prefix##*[!/]}"} # without slashes at its end
libdir=${libdir#"$prefix"/}

complain() { echo "install.sh: $*" >&2 && exit 1; }

[[ $prefix == /* ]] || complain "PREFIX=$prefix: this has to begin with /"
[[ -z $destdir || $destdir == /* ]] || complain "DESTDIR=$destdir: this has to begin with /"

PATH=$PATH:/usr/sbin:/sbin # where users do not look for ldconfig

# Root works as the owner of the build or, where there is none yet, of the checkout.
tree=.
for folder in build "$build"; do
	[[ ! -d $folder ]] || tree=$folder
done
as_owner=()
if ((EUID == 0)) && [[ $(stat -c %u "$tree") != 0 ]]; then
	as_owner=(setpriv --reuid "$(stat -c %u "$tree")" --regid "$(stat -c %g "$tree")" --clear-groups)
fi

# Where the nearest folder that is there may be written to, so may what is made below it.
may_write() {
	local folder=$1
	while [[ ! -e $folder ]]; do
		folder=$(dirname "$folder")
	done
	[[ -d $folder && -w $folder ]]
}
may_write "$destdir$prefix" ||
	complain "$(id -un) may not write to $destdir$prefix: sudo make install, or PREFIX=\$HOME/tally"

# installed: of each file, tab-separated, what it is made of and where it goes.
installed() {
	"${as_owner[@]}" meson introspect --installed "$build" | python3 -c '
import json, sys
for source, target in json.load(sys.stdin).items():
    print(source, target, sep="\t")'
}

# options: the prefix and libdir that the build is set up for.
options() {
	"${as_owner[@]}" meson introspect --buildoptions "$build" | python3 -c '
import json, sys
value = {option["name"]: option["value"] for option in json.load(sys.stdin)}
print(value["prefix"], value["libdir"])'
}

if [[ ! -f $build/build.ninja ]] && ((EUID == 0)); then
	scripts/deps.sh build
fi
"${as_owner[@]}" scripts/setup.sh release
if [[ $(options) != "$prefix $libdir" ]]; then
	"${as_owner[@]}" meson configure "$build" --prefix "$prefix" --libdir "$libdir" ||
		complain "meson does not take PREFIX=$prefix LIBDIR=$libdir"
	"${as_owner[@]}" ninja -C "$build" build.ninja >/dev/null
fi

if [[ ${1-} == --remove ]]; then
	installed | while IFS=$'\t' read -r _ target; do
		[[ ! -e $destdir$target && ! -L $destdir$target ]] || echo "removing $destdir$target"
		rm -f "$destdir$target"
	done
	# What it has made and nothing else uses; PREFIX and its bin, lib and include are for others to judge.
	rmdir --ignore-fail-on-non-empty "$destdir$prefix/$libdir/pkgconfig" "$destdir$prefix"/share/man/man[1378] \
		2>/dev/null || true
else
	here=$(pwd -P)/$build/
	targets=()
	while IFS=$'\t' read -r source _; do
		[[ $source != "$here"* || $source == *.pc ]] || targets+=("${source#"$here"}")
	done < <(installed)
	((${#targets[@]})) || complain "there is nothing to install"
	"${as_owner[@]}" ninja -C "$build" "${targets[@]}"
	DESTDIR=$destdir meson install --no-rebuild -C "$build"
	# Its log is the only thing that root has written here.
	chown --reference="$tree" "$build"/meson-logs/install-log.txt
fi

[[ -z $destdir ]] || exit 0
if ((EUID == 0)) && command -v ldconfig >/dev/null; then
	ldconfig || echo "ldconfig failed: programs may not find the library yet"
fi
[[ ${1-} != --remove ]] || exit 0
# What finds it from now on, and what has to be told.
[[ $(ldconfig -p 2>/dev/null) == *" $prefix/$libdir/libtally.so"* ]] ||
	echo "the linker does not look there: export LD_LIBRARY_PATH=$prefix/$libdir, or name it in /etc/ld.so.conf.d"
pkg-config --exists tally 2>/dev/null && [[ $(pkg-config --variable=prefix tally) == "$prefix" ]] ||
	echo "pkg-config does not look there: export PKG_CONFIG_PATH=$prefix/$libdir/pkgconfig"
[[ :$PATH: == *":$prefix/bin:"* ]] || echo "the shell does not look there: export PATH=$prefix/bin:\$PATH"
