#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shim_test.sh openmpi|mpich [long] - programs of this MPI, with its library preloaded, on 3 ranks of this host: results
# are those of MPI alone, and were tally's where they should be. long: sums of up to 64 MB, 2 to 4 ranks.
# TALLY_BUILD: where the library and the programs are.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
mpi=$1 size=${2-}
here=$(realpath "${TALLY_BUILD:-build/release}")/bindings/mpi
shim=$here/libtally-mpi-$mpi.so
other=$here/libtally-mpi-$([[ $mpi == mpich ]] && echo openmpi || echo mpich).so
case $mpi in
openmpi) launcher=mpirun.openmpi ;;
mpich) launcher=mpiexec.mpich ;;
esac
if [[ ! -e $shim ]] || ! command -v "$launcher" >/dev/null; then
	echo "SKIP: shim-$mpi: no $mpi (scripts/deps.sh test)"
	exit 77
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 2
export TMPDIR=$tmp OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset TALLY_AGGREGATOR
for name in $(compgen -e TALLY_MPI_); do
	unset "$name"
done
failures=0

fail() {
	echo "FAILED: $mpi: $*"
	tail -n 8 out err
	failures=$((failures + 1))
}

# ranks N PRELOAD COMMAND ARGUMENT...: over TCP or UCX on loopback; ranks that share a processor yield.
ranks() {
	local n=$1 preload=$2
	shift 2
	if [[ $mpi == openmpi ]]; then
		timeout 120 mpirun.openmpi --oversubscribe --bind-to none -n "$n" --mca pml ob1 --mca btl tcp,self \
			--mca btl_tcp_if_include lo --mca mpi_yield_when_idle 1 -x "LD_PRELOAD=$preload" "$@" >out 2>err </dev/null
	else
		timeout 120 mpiexec.mpich -n "$n" -genv LD_PRELOAD "$preload" "$@" >out 2>err </dev/null
	fi
}

# right N COMMAND...: it ends well, and tally has done some of it.
right() {
	ranks "$1" "$shim" "${@:2}" || fail "$1 ranks of ${*:2}: exit status $?"
	grep -qE 'tally-mpi: rank 0 of [0-9]+: [1-9][0-9]* calls offloaded' err || fail "${*:2}: nothing was offloaded"
}

export TALLY_MPI_REPORT=1 TALLY_MPI_MIN_BYTES=0 TALLY_MPI_ALL=1 TALLY_MPI_PERSISTENT=1
if [[ $size == long ]]; then
	for n in 2 3 4; do
		right "$n" "$here/sweep-$mpi" long
		cat out err
	done
	echo "$failures failures, $SECONDS s"
	exit $((failures != 0))
fi
right 3 "$here/sweep-$mpi"
grep -q '^0 failures in ' out || fail "the sweep"
for name in Allreduce Reduce Reduce_scatter Reduce_scatter_block Bcast Allgather Allgatherv Barrier; do
	grep -q "MPI_$name: [1-9][0-9]* offloaded" err || fail "no MPI_$name was offloaded"
done
right 3 "$here/waits-$mpi"
right 3 "$here/waits-$mpi" threads
TALLY_MPI_EAGER=1 right 3 "$here/sweep-$mpi"
if [[ -x $here/fortran-$mpi ]]; then
	right 3 "$here/fortran-$mpi"
	# In each of the three ways of Fortran.
	grep -qE 'MPI_Allreduce: [34] offloaded' err || fail "Fortran's sums were not offloaded"
else
	echo "SKIP: shim-$mpi: Fortran: no gfortran (scripts/deps.sh test)"
fi

# One host, nothing set: MPI's memory is faster.
(unset TALLY_MPI_MIN_BYTES && ranks 2 "$shim" "$here/waits-$mpi" mpi) || fail "nothing set"
grep -q ': 0 calls offloaded' err || fail "on one host something was offloaded"
grep -q 'all ranks on one host' err || fail "the report does not say why"

# Rank 0's setting is every rank's.
# shellcheck disable=SC2016
ranks 3 "$shim" sh -c 'TALLY_MPI_MIN_BYTES=$((${PMI_RANK-${OMPI_COMM_WORLD_RANK-0}} * 100000)) exec "$@"' sh \
	"$here/waits-$mpi" mpi || fail "ranks of different settings"
grep -q 'MPI_Allreduce: [1-9][0-9]* offloaded' err || fail "ranks of different settings offload nothing"

# No aggregator: all go on together, and one line says so; or an error, where that is wanted.
TALLY_INIT_TIMEOUT_S=3 TALLY_AGGREGATOR=127.0.0.1:1 ranks 3 "$shim" "$here/waits-$mpi" mpi || fail "without an aggregator"
(($(grep -c 'stays with MPI' err) == 1)) || fail "not one line about the aggregator that is not there"
TALLY_INIT_TIMEOUT_S=3 TALLY_AGGREGATOR=127.0.0.1:1 TALLY_MPI_REQUIRE=1 ranks 3 "$shim" "$here/waits-$mpi" mpi && fail "no error without an aggregator"
grep -q '127.0.0.1:1' err || fail "the error does not name the aggregator"
export TALLY_MPI_MIN_BYTES=8
TALLY_INIT_TIMEOUT_S=2 TALLY_AGGREGATOR=127.0.0.1:1 TALLY_MPI_REQUIRE=1 ranks 3 "$shim" "$here/faults-$mpi" required ||
	fail "not each call is an error without an aggregator"
# With nothing set, of two hosts, one of which has a communicator of its own. MPICH's ranks do not find each
# other across user namespaces.
if [[ $mpi == mpich ]]; then
	echo "NOT HERE: shim-mpich: ranks of two hosts' names: shim-openmpi has them"
elif unshare --map-root-user --uts hostname other-host 2>/dev/null; then
	# shellcheck disable=SC2016
	(unset TALLY_MPI_MIN_BYTES && TALLY_INIT_TIMEOUT_S=2 TALLY_AGGREGATOR=127.0.0.1:1 TALLY_MPI_REQUIRE=1 ranks 3 "$shim" sh -c '
		[ "${PMI_RANK-$OMPI_COMM_WORLD_RANK}" = 2 ] || exec "$@"
		exec unshare --map-root-user --uts sh -c "hostname other-host && exec \"\$@\"" sh "$@"' sh "$here/faults-$mpi" hosts) ||
		fail "two hosts without an aggregator"
else
	echo "NOT HERE: shim-$mpi: a rank of another host's name: the kernel allows no namespaces"
fi
right 3 "$here/faults-$mpi"
grep -q 'the end' out || fail "one rank without memory ends the job"
grep -q 'rank 1 has no memory for' err || fail "nobody says which rank has no memory"

# The other MPI's library.
if [[ -e $other ]]; then
	ranks 2 "$other" "$here/waits-$mpi" mpi && fail "the other MPI's library was not refused"
	grep -q "preload libtally-mpi-$mpi.so instead" err || fail "nobody says which library is right"
fi

# Debian's is of Open MPI, and for Debian's own Python.
python=/usr/bin/python3
if [[ $mpi == openmpi ]] && "$python" -c 'import mpi4py, numpy' 2>/dev/null; then
	cat >t.py <<-'END_PYTHON'
		from mpi4py import MPI
		import numpy as np
		comm = MPI.COMM_WORLD
		n, rank = comm.size, comm.rank
		a = np.arange(1000, dtype="f") * (rank - 1)
		b = np.empty_like(a)
		comm.Allreduce(a, b)
		assert np.array_equal(b, np.arange(1000, dtype="f") * (n * (n - 1) // 2 - n)), b
		request = comm.Iallreduce(MPI.IN_PLACE, a, op=MPI.MAX)
		request.Wait()
		assert np.array_equal(a, np.arange(1000, dtype="f") * (n - 2)), a
		assert comm.allreduce({rank}, op=lambda x, y: x | y) == set(range(n))
	END_PYTHON
	right 3 "$python" t.py
else
	echo "NOT HERE: mpi4py for $mpi"
fi

echo "$failures failures, $SECONDS s"
exit $((failures != 0))
