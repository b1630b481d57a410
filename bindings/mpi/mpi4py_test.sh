#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# mpi4py_test.sh openmpi|mpich [RANKS [MODULE...]] - mpi4py's own tests, unchanged, over MPI alone and with tally in front of
# it: each test ends alike on each rank, and tally has done what it could of it. RANKS: 2 or "2 3", as a list. MODULE: cco_buf is
# test_cco_buf.py; none: a few that take seconds; all: all there are, which takes minutes. mpi4py comes from Python's index.
# TALLY_BUILD: where the library is, and beside it mpi4py stays. SKIPPED where none can be had.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
mpi=$1
read -ra numbers <<<"${2-2 3}"
modules=("${@:3}")
version=4.1
build=$(realpath "${TALLY_BUILD:-build/release}")
shim=$build/bindings/mpi/libtally-mpi-$mpi.so
launcher=$([[ $mpi == mpich ]] && echo mpiexec.mpich || echo mpirun.openmpi)
# Seconds, of a module; MPICH's ranks spin, and Open MPI's tests of files may take for ever, without tally, too. What MPI alone
# can just do has time to be slower with tally.
limit_alone=100 limit_tally=180
skip() { echo "$1: mpi4py-$mpi: $2" && exit 77; }

if [[ ! -e $shim ]] || ! command -v "$launcher" >/dev/null; then
	skip SKIP "no $mpi (scripts/deps.sh test)"
fi
here=$(dirname "$build")/mpi4py-$version
exec {lock}>"$here.lock" || exit 2
flock "$lock" # the other MPI's test may fetch it now
if [[ ! -e $here/whole ]]; then
	# The tests are in the source alone, which is not built. The wheel is for both MPIs.
	fetch() { python3 -m pip "$@" -q --no-deps --retries 1 "mpi4py~=$version.0" >>"$here/log" 2>&1; }
	rm -rf "$here" && mkdir -p "$here"
	if ! fetch install --only-binary mpi4py --target "$here/package" || ! fetch download --no-binary mpi4py -d "$here"; then
		skip "NOT HERE" "the index has no mpi4py $version for this Python: $(tail -n 1 "$here/log")"
	fi
	tar -xzf "$here"/mpi4py-*.tar.gz --strip-components 1 -C "$here" --wildcards 'mpi4py-*/test' && touch "$here/whole"
fi
exec {lock}>&-
python3 -c 'import numpy' 2>/dev/null || skip SKIP "no numpy for $(command -v python3) (scripts/deps.sh test)"
((${#modules[@]})) || modules=(cco_buf cco_nb_buf cco_vec)
if [[ ${modules[*]} == all ]]; then
	mapfile -t modules < <(cd "$here/test" && printf '%s\n' test_*.py | sed 's/^test_//; s/\.py$//')
fi
for module in "${modules[@]}"; do
	[[ -e $here/test/test_$module.py ]] || { echo "FAILED: mpi4py $version has no test_$module.py" && exit 1; }
done

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 2
export TMPDIR=$tmp OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 MPI4PY_MPIABI=$mpi
export PYTHONPATH=$here/package PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
unset TALLY_AGGREGATOR
for name in $(compgen -e TALLY_MPI_); do
	unset "$name"
done
if [[ $mpi == mpich ]]; then # the wheel wants the name that all have who share MPICH's ABI; Debian's library has another
	ln -s "$(ldd "$shim" | awk '/libmpich/ { print $3 }')" "$tmp/libmpi.so.12"
	export LD_LIBRARY_PATH=$tmp
fi
export TALLY_MPI_REPORT=1 TALLY_MPI_ALL=1
failures=0 tests=0 offloaded=0

# ranks LIMIT N PRELOAD NAME MODULE: what rank R says is in NAME.R.
ranks() {
	local limit=$1 n=$2 preload=$3 name=$4 module=$5 rank
	# shellcheck disable=SC2016 # the ranks expand it
	local each=(sh -c 'exec "$@" 2>"$0.${PMI_RANK-$OMPI_COMM_WORLD_RANK}"' "$tmp/$name" python3 "$here/test/main.py" -v -i
		"^test_$module\\.py\$")
	rm -f "$name".*
	for ((rank = 0; rank < n; rank++)); do
		: >"$name.$rank"
	done
	if [[ $mpi == openmpi ]]; then
		timeout "$limit" mpirun.openmpi --oversubscribe --bind-to none -n "$n" --mca pml ob1 --mca btl tcp,self \
			--mca btl_tcp_if_include lo --mca mpi_yield_when_idle 1 -x "LD_PRELOAD=$preload" "${each[@]}"
	else
		timeout "$limit" mpiexec.mpich -n "$n" -genv LD_PRELOAD "$preload" "${each[@]}"
	fi >"$name.out" 2>&1 </dev/null
}

# ends FILE: each test, and how it ended.
ends() {
	grep -v '^tally-mpi: ' "$1" | sed -nE 's/^(test\w*) \(([^)]*)\).* \.\.\. (.*)$/\2 \1 \3/p' | sort
}

both() {
	local n=$1 module=$2 plain of rank calls
	ranks "$limit_alone" "$n" "" plain "$module"
	plain=$?
	if ((plain == 124)); then
		echo "NOT HERE: $module: $n ranks: $mpi alone takes more than $limit_alone s"
		return
	fi
	# test_ulfm makes an Iagree of Iallreduce, where MPI has none, and starts it before a Barrier on one rank, and after it on
	# another, which MPI forbids. Barriers have no size: they are MPI's from 1 byte on.
	TALLY_MPI_MIN_BYTES=$([[ $module == ulfm ]] && echo 1 || echo 0) ranks "$limit_tally" "$n" "$shim" tally "$module"
	of=$?
	if ((of != plain)); then
		echo "FAILED: $module: $n ranks: exit status $of, and $plain of $mpi alone"
		tail -n 5 tally.out
		failures=$((failures + 1))
	fi
	for ((rank = 0; rank < n; rank++)); do
		ends "plain.$rank" >want
		ends "tally.$rank" >is
		tests=$((tests + $(wc -l <want)))
		cmp -s want is && [[ -s want ]] && continue
		echo "FAILED: $module: rank $rank of $n differs from $mpi alone (<):"
		diff want is | sed -n 1,20p
		failures=$((failures + 1))
	done
	calls=$(awk '/^tally-mpi: rank 0 of .* calls offloaded/ { sum += $6 } END { print sum + 0 }' tally.[0-9]*)
	offloaded=$((offloaded + calls))
	echo "$module, $n ranks: $(wc -l <want) tests, of rank 0 $calls calls offloaded"
}

for n in "${numbers[@]}"; do
	for module in "${modules[@]}"; do
		both "$n" "$module"
	done
done
((tests || failures)) || skip "NOT HERE" "this machine is too slow for $mpi alone"
((offloaded)) || { echo "FAILED: nothing was offloaded" && failures=$((failures + 1)); }
echo "mpi4py-$mpi: ${#modules[@]} modules at ${numbers[*]} ranks: $tests tests of ranks, $failures differences, $offloaded calls offloaded (rank 0), $SECONDS s"
exit $((failures != 0))
