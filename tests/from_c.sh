#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# from_c.sh - README's "From C", word for word, in a Debian 12 that has what every Debian has and nothing else: without
# a network, apt there finds in its cache what README has it install. An archive of this tree, as committed or tracked,
# is all that it is given. A user installs into a folder of hers, root into /usr/local, she goes on, root uninstalls,
# and the checkout moves. TALLY_BUILD: beside it stays the Debian, some 300 MB, for a week. Needs root, mmdebstrap and,
# when it is made, a mirror.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "${TALLY_BUILD:-build/release}")
export LAB=tally-from-c-$$
# shellcheck source=tests/e2e/spaces.sh
. tests/e2e/spaces.sh
# shellcheck source=scripts/tree.sh
. scripts/tree.sh
spaces_need from_c mmdebstrap git ip unshare
root=$(mktemp -d "$(dirname "$build")/from_c.XXXXXX")
trap 'rm -rf "$root" "$root.tar"' EXIT

mapfile -t packages < <(scripts/deps.sh --list build)
debian=$(dirname "$build")/debian-12-bare-$(cksum <<<"${packages[*]}" | cut -d ' ' -f 1).tar
if [[ ! -s $debian || $(find "$debian" -mtime +6) ]]; then
	# shellcheck disable=SC2016 # the hook expands it
	if nice -n 19 mmdebstrap --variant=minbase --aptopt='Acquire::Retries "3"' --skip=cleanup/apt --customize-hook='
		APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get install -y --download-only --no-install-recommends '"${packages[*]}" \
		bookworm "$root.tar" >"$root/log" 2>&1; then
		rm -f "$(dirname "$build")"/debian-12-bare-*.tar
		mv "$root.tar" "$debian"
		echo "made $debian: $SECONDS s"
	else
		tail -n 20 "$root/log"
		[[ -s $debian ]] || { echo "FAILED: no Debian to install into: mmdebstrap, above; is there a network?" && exit 1; }
		echo "the Debian is of $(date -r "$debian" +%F): there is none of today, as mmdebstrap says above"
	fi
fi
tar -x --exclude='./dev/*' -f "$debian" -C "$root"
echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/for-a-test"

mkdir -p "$root/home/dev/tally"
if [[ -e .git ]]; then
	# What git makes for it is nothing of the checkout's, which may be another user's.
	mkdir -p "$root/git/objects"
	cp "$(git rev-parse --git-path index)" "$root/git/index"
	GIT_ALTERNATE_OBJECT_DIRECTORIES=$(realpath "$(git rev-parse --git-path objects)")
	export GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_OBJECT_DIRECTORY=$root/git/objects GIT_INDEX_FILE=$root/git/index
	git update-index -q --refresh || true # of a copied checkout, stash fails once without a word (git 2.39)
	commit=$(git -c user.name=x -c user.email=x stash create)
	commit=$(git rev-parse "${commit:-HEAD}")
	git archive "$commit" | tar -x -C "$root/home/dev/tally"
else
	commit=$(scripts/commit.sh)
	files . | tar -c --null -T - | tar -x -C "$root/home/dev/tally"
fi
awk '/^## / { on = /^## From C$/ } /^```/ { is_c = !is_c } on && !is_c && /^    / { print substr($0, 5) }' \
	README.md >"$root/commands"
awk '/^## / { on = /^## From C$/ } /^```/ { is_c = !is_c; next } on && is_c' README.md >"$root/average.c"
if [[ ! -s $root/average.c ]] || [[ $(sed -n 1p "$root/commands") != 'scripts/deps.sh build '* ]] ||
	! grep -q 'make install' "$root/commands" || ! grep -q 'tally run' "$root/commands"; then
	echo "FAILED: README has no \"From C\" to try"
	exit 1
fi

cat >"$root/install" <<'END'
set -euo pipefail
fail() { echo "FAILED: $*" && exit 1; }
as_dev() { setpriv --reuid dev --regid dev --clear-groups env HOME=/home/dev "$@"; }
useradd dev
chown -R dev:dev /home/dev
cd /home/dev/tally

for program in make cc meson python3; do
	! command -v "$program" || fail "this Debian has what README has it install"
done
as_dev scripts/setup.sh release 2>/said && fail "it is set up with nothing"
grep -q 'there is no meson here: scripts/deps.sh build, as root, installs' /said || fail "nobody says what to install: $(cat /said)"
as_dev scripts/deps.sh build 2>/said && fail "a user installs packages"
grep -q '^missing packages; as root: apt-get install' /said || fail "nobody says how: $(cat /said)"
sed -n 1p /commands | bash -euxo pipefail >/said 2>&1 || fail "README's packages: $(tail -n 20 /said)"
ldconfig
find /usr/local | sort >/before

as_dev make install >/said 2>&1 && fail "a user writes to /usr/local"
grep -q 'may not write to /usr/local: sudo make install' /said || fail "nobody says that root is needed: $(cat /said)"
as_dev make install PREFIX=/home/dev/here >/said || fail "make install as a user: $(tail -n 20 /said)"
grep -q "export LD_LIBRARY_PATH=/home/dev/here/lib" /said || fail "nobody says how it is found: $(tail -n 5 /said)"
as_dev env LD_LIBRARY_PATH=/home/dev/here/lib /home/dev/here/bin/tally --version >/said
[[ -z $COMMIT ]] || grep -q "commit ${COMMIT:0:12}" /said || fail "an archive does not say its commit: $(cat /said)"
as_dev env LD_LIBRARY_PATH=/home/dev/here/lib /home/dev/here/bin/tally sim --seeds 1..2 >/said 2>&1 ||
	fail "the simulator, as it is installed: $(tail -n 20 /said)"
[[ -z $(find build/release/{tests,examples,bench} -name '*.o') ]] || fail "it builds what it does not install"

rm build/release/meson-logs/install-log.txt # as after her `make`: root is the first to install
bash -euxo pipefail /commands >/said 2>&1 || fail "README's commands: $(tail -n 20 /said)"
cat /said
grep -qE '^(the linker|pkg-config|the shell) does not' /said && fail "it is not found after make install as root"
[[ $(ldconfig -p) == *" /usr/local/lib/libtally.so.0"* ]] || fail "the linker does not know it"
cc -Wall -Werror -c /average.c -o /average.o $(pkg-config --cflags tally) || fail "README's C does not compile"
find build ! -user dev | grep . && fail "this is root's now, in a user's build"

as_dev make install PREFIX=/home/dev/here >/said || fail "make install as a user, after root: $(tail -n 20 /said)"
grep -q 'Linking' /said && fail "make install builds again what was there"
make uninstall >/said || fail "make uninstall: $(tail -n 20 /said)"
find /usr/local | sort | diff /before - || fail "make uninstall leaves this"
[[ $(ldconfig -p) != *libtally* ]] || fail "the linker still knows it"
[[ -x /home/dev/here/bin/tally ]] || fail "make uninstall took the user's"

mv /home/dev/tally /home/dev/moved
cd /home/dev/moved
as_dev scripts/setup.sh release 2>/said || fail "setup.sh in a moved checkout: $(cat /said)"
grep -q 'was set up in /home/dev/tally' /said || fail "nobody says that the checkout moved: $(cat /said)"
as_dev ninja -C build/release src/util/commit.h >/said || fail "a moved checkout does not build: $(cat /said)"
END

# shellcheck disable=SC2016 # the inner ones expand it
nice -n 19 unshare --mount --net --pid --fork --kill-child bash -euc '
	ip link set lo up
	mount -t proc proc "$1/proc"
	mount --rbind /dev "$1/dev"
	exec chroot "$1" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root COMMIT="$2" \
		bash /install' bash "$root" "$commit" </dev/null
echo "From C: $SECONDS s"
