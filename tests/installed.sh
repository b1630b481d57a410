#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# installed.sh - what `make install` puts where: programs, library, headers, pkg-config's file and manual pages, and the
# libraries for each MPI that was built for, which find libtally beside themselves and carry a program from there.
# TALLY_BUILD: a build of all. (from_c.sh does the same in an empty Debian, which has no MPI, and takes it away again.)
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "${TALLY_BUILD:-build/release}")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failures=0
fail() { echo "FAILED: $*" && failures=$((failures + 1)); }

meson install -C "$build" --no-rebuild --destdir "$tmp/root" >"$tmp/log" 2>&1 || { tail -n 5 "$tmp/log" && exit 1; }
prefix=$tmp/root/usr/local
[[ -d $prefix ]] || prefix=$(dirname "$(dirname "$(find "$tmp/root" -name tallyd | sed -n 1p)")")
lib=$(dirname "$(find "$prefix" -name libtally.so.0 | sed -n 1p)")
for file in bin/tally bin/tallyd bin/tally-ps include/tally.h include/tally_kv.h; do
	[[ -e $prefix/$file ]] || fail "no $file"
done
[[ -e $lib/libtally.so && -e $lib/pkgconfig/tally.pc ]] || fail "no libtally.so or tally.pc in $lib"
for page in docs/man/*.[1-9]; do
	[[ -e $prefix/share/man/man${page##*.}/$(basename "$page") ]] || fail "no manual page $(basename "$page")"
done
for mpi in openmpi mpich; do
	shim=$lib/libtally-mpi-$mpi.so
	[[ -e $build/bindings/mpi/libtally-mpi-$mpi.so ]] || { echo "SKIP: installed: no $mpi (scripts/deps.sh test)" && continue; }
	[[ -e $shim ]] || { fail "no $shim" && continue; }
	finds=$(ldd "$shim")
	[[ $finds == *"libtally.so.0 => $lib/"* ]] || fail "$shim does not find libtally beside itself: $finds"
	launcher=$([[ $mpi == mpich ]] && echo mpiexec.mpich || echo mpirun.openmpi)
	command -v "$launcher" >/dev/null || continue
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
	(cd "$tmp" && TALLY_MPI_REPORT=1 TALLY_MPI_MIN_BYTES=0 timeout 60 "$launcher" -n 2 \
		env LD_PRELOAD="$shim" "$build/bindings/mpi/waits-$mpi" mpi) >"$tmp/out" 2>&1 </dev/null ||
		fail "a program with $shim: $(tail -n 5 "$tmp/out")"
	grep -qE 'rank 0 of 2: [1-9][0-9]* calls offloaded' "$tmp/out" || fail "$shim offloads nothing"
done
echo "$failures failures, $(find "$tmp/root" -type f | wc -l) files, $SECONDS s"
exit $((failures != 0))
