#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# mpi_sizes.sh [RANKS [RATE]] - from which size on Open MPI's Allreduce is faster over tally: hosts (namespaces) at RATE (1gbit)
# around one aggregator, bench/mpi_sizes.c. What TALLY_MPI_MIN_BYTES is by default comes from here. Needs root.
set -euo pipefail
cd "$(dirname "$0")/.."
ranks=${1:-4} rate=${2:-1gbit}
TALLY_BUILD=$(realpath "${TALLY_BUILD:-build/release}")
export TALLY_BUILD LAB=tally-sizes-$$
scratch=$(mktemp -d)
daemon=
over() {
	[[ -z $daemon ]] || kill "$daemon" || true
	lab/lab.sh down || true
	rm -rf "$scratch"
}
trap over EXIT
lab/lab.sh up "$ranks"
lab/lab.sh shape "$rate" 256k 4M
hosts=
for ((rank = 0; rank < ranks; rank++)); do
	hosts+=${hosts:+,}10.55.0.$((10 + rank)):1
done
cat >"$scratch/agent" <<-END_AGENT
	#!/bin/bash
	while [[ \$1 == -* ]]; do shift; done
	worker=\$((\${1##*.} - 10))
	shift
	exec ip netns exec $LAB-w\$worker unshare --uts bash -c "hostname $LAB-w\$worker; \$*"
END_AGENT
chmod +x "$scratch/agent"
ip netns exec "$LAB-hub" "$TALLY_BUILD/tools/tallyd" --listen 10.55.0.1 >"$scratch/tallyd" 2>&1 &
daemon=$!
sleep 1
# shellcheck disable=SC2016 # the inner one expands it
timeout 170 lab/lab.sh exec hub unshare --uts bash -c 'hostname "$1"; shift; exec "$@"' bash "$LAB-hub" \
	mpirun.openmpi --allow-run-as-root --bind-to none -H "$hosts" -np "$ranks" \
	--mca plm_rsh_agent "$scratch/agent" --mca oob_tcp_if_include 10.55.0.0/24 \
	--mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include 10.55.0.0/24 --mca mpi_yield_when_idle 1 \
	-x "LD_PRELOAD=$TALLY_BUILD/bindings/mpi/libtally-mpi-openmpi.so" -x TALLY_AGGREGATOR=10.55.0.1 \
	-x TALLY_MPI_MIN_BYTES=0 "$TALLY_BUILD/bench/mpi_sizes"
