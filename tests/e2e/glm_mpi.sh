#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# glm_mpi.sh - tally-glm-mpi under mpirun, over TCP on loopback: 2 and 4 ranks make the model of tally glm train with
# one rank, byte for byte; a rank that gives up is heard, and ends the others. TALLY_BUILD: where the programs are.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
tools=$(realpath "${TALLY_BUILD:-build/release}")/tools
mpirun=$(command -v mpirun.openmpi || true)
[[ -x $tools/tally-glm-mpi && $mpirun ]] || {
	echo "SKIP: glm-mpi: no Open MPI (scripts/deps.sh bench)"
	exit 77
}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 2
export TMPDIR=$tmp OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
failures=0

fail() {
	echo "FAILED: $*"
	tail -n 5 out err
	failures=$((failures + 1))
}

# ranks N STATUS COMMAND ARGUMENT...: under mpirun; the status is 0, or another one.
ranks() {
	local n=$1 want=$2 got
	shift 2
	timeout 60 "$mpirun" --oversubscribe --bind-to none -n "$n" --mca pml ob1 --mca btl tcp,self \
		--mca btl_tcp_if_include lo --mca mpi_yield_when_idle 1 "$@" >out 2>err </dev/null
	got=$?
	got=$((got != 0))
	[[ $got == "$want" ]] || fail "$n ranks: $*: exit status $got, not $want"
}

python3 - <<-'END_PYTHON'
	import random
	random.seed(11)
	for name, classes in ("two", 2), ("three", 3):
	    with open(name, "w") as rows:
	        for _ in range(700):
	            used = sorted(random.sample(range(1, 150), random.randint(1, 20)))
	            rows.write("%d %s\n" % (random.randrange(classes), " ".join("%d:%.3f" % (j, random.gauss(0, 1)) for j in used)))
END_PYTHON

# ranks, --comm, data and options
while read -r n comm file options; do
	read -ra options <<<"$options"
	"$tools/tally" glm train "$file" --epochs 2 "${options[@]}" -m one >/dev/null || fail "one rank"
	ranks "$n" 0 "$tools/tally-glm-mpi" "$file" --comm "$comm" --epochs 2 "${options[@]}" -m many --json
	cmp -s one many || fail "$n ranks over MPI make another model: $file ${options[*]}"
	grep -qE "\"ranks\":$n,.*\"comm\":\"mpi(-blocking)?\"" out || fail "these are not $n ranks over MPI"
done <<-END
	2 auto two --bias 1
	4 mpi two -b 5 --l1 0.001
	4 auto three -B 40 -b auto
	2 mpi three --threads 2 -b 16
	2 auto two -B 1 --rate 0.5 --no-shuffle --loss hinge --threads 1
END

# Gradients over MPI: the same loss, nearly.
"$tools/tally" glm train three --epochs 3 --json >one.json
ranks 4 0 "$tools/tally-glm-mpi" three --epochs 3 --json --parallel data
python3 - <<-END || fail "another curve with --parallel data"
	import json
	a, b = ([json.loads(line) for line in open(name)] for name in ("one.json", "out"))
	assert len(a) == len(b) == 4 and b[-1]["parallel"] == "data"
	assert all(abs(x["loss"] / y["loss"] - 1) < 1e-3 for x, y in zip(a, b))
END

# shellcheck disable=SC2016
ranks 4 1 sh -c 'cp two mine.$OMPI_COMM_WORLD_RANK
	[ $OMPI_COMM_WORLD_RANK != 2 ] || echo "1 1:x" >>mine.2
	exec "$@" mine.$OMPI_COMM_WORLD_RANK' sh "$tools/tally-glm-mpi" -m never
grep -q 'tally glm train: mine.2:701:5: ' err || fail "the rank that gave up was not heard"
[[ ! -e never ]] || fail "a model of nothing"
ranks 2 1 "$tools/tally-glm-mpi" two --comm latency
grep -q 'tally glm train: --comm: this is the program for mpi alone' err || fail "--comm latency over MPI"
"$tools/tally" glm train two --comm mpi >out 2>err && fail "--comm mpi without MPI"
grep -q 'tally-glm-mpi' err || fail "nobody says which program has MPI"

echo "$failures failures, ${SECONDS} s"
exit $((failures != 0))
