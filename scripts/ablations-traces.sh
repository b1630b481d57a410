#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ablations-traces.sh [NAME...] - the traces of docs/ablations.md: with one rule taken out, what the search or the
# simulator finds, as a sequence diagram. What the simulator is asked must pass with the rule.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=build/ablate
lines=26 # of a trace: its end
wanted=("$@")

is_wanted() {
	((${#wanted[@]} == 0)) || [[ " ${wanted[*]} " == *" $1 "* ]]
}

shorten() { # the heads of the columns, and the last lines of what is below
	awk -v most="$lines" '
		/^ *(step|us)  / { head = $0; next }
		{ line[++count] = $0 }
		END {
			if (head) print head
			if (count > most) print "         ..."
			for (i = count > most ? count - most + 1 : 1; i <= count; i++) print line[i]
		}' | sed 's/ *$//'
}

search() { # NAME [ROW]
	is_wanted "$1" || return 0
	echo "== $1"
	ABLATE=$1 $dir/src/search/tally-search --expect-violation --diagram ${2:+--row "$2"} | shorten
}

simulate() { # NAME ARGUMENT...
	local name=$1 status=0
	shift
	is_wanted "$name" || return 0
	echo "== $name"
	$dir/src/sim/sim_main "$@" >build/ablations-traces.log || { echo "fails with the rule, too: $*"; exit 1; }
	ABLATE=$name $dir/src/sim/sim_main "$@" >build/ablations-traces.log || status=$?
	((status == 1)) || { echo "exit status $status: $*"; exit 1; }
	sed -n '/^ *us /,/^ *repeat: /p' build/ablations-traces.log |
		sed 's/^FAILED seed [0-9]*:/      =>/; /^  repeat: /d; s/ g\([0-9]*\) child [0-9]*/ g\1/; s/ tag [0-9a-f]*//' |
		shorten
}

scripts/setup.sh ablate
ninja -C "$dir" src/sim/sim_main src/search/tally-search >build/ablations-traces.log
for name in SWITCH_GENERATION WORKER_GENERATION; do search $name; done
simulate SLOT_GENERATION --seed 4 --scenario restart --packets 1500 --with shards=1,workers=1,ops=1,chunks=1,pauses=0,late=0,seq=0,run=1,lanes=4,slots=5,window=1,jitter=0,duplicate=0,reorder=0,loss=0,hosts=0,last=0,chance=6
simulate CLEAR_THEN_SET --seed 28 --scenario restart --packets 1500 --with shards=1,workers=1,chunks=3,windows=0,late=0,hello=0,run=1,lanes=4,slots=5,window=1,duplicate=0,reorder=0,loss=0,hosts=0,last=0,spared=4
for name in WORKER_SEQ BITMAP SHADOW COPY_LANES; do search $name; done
simulate EXPONENT_ASSIGN --seed 4 --scenario lossy --packets 1500 --with shards=1,workers=1,ops=3,chunks=3,pauses=0,late=0,seq=0,run=1,lanes=4,slots=5,window=1,jitter=0,duplicate=0,reorder=0,loss=6765,last=5,spared=7,chance=3
simulate STICKY_ASSIGN --seed 16 --scenario lossy --packets 1500 --with workers=2,ops=3,chunks=4,windows=0,late=0,hello=0,run=1,slots=5,window=1,duplicate=0,reorder=0,loss=0,hosts=0,last=0,spared=25
for name in LAST_ASSIGN NODE_PROBE PARENT_CHECKS EXPONENT_LOCAL; do search $name; done
for name in GUESS_WAIT GUESS_FITS GUESS_ALIKE EXPONENT_BYTES; do search $name guess; done
simulate HELD_TIMER --seed 1 --scenario lossy --packets 1500 --patience 20000 --with shards=1,levels=1,workers=5,ops=1,chunks=1,late=0,seq=0,run=1,lanes=4,slots=5,window=1,jitter=0,duplicate=0,reorder=0,loss=10036,hosts=0,last=22,spared=22,chance=1
simulate RING_ROTATION --seed 122 --scenario lossy --packets 1500 --patience 20000 --with ops=4,chunks=12,late=0,run=1,lanes=4,slots=5,window=4,duplicate=0,reorder=0,loss=18842,last=104,spared=14,chance=4
simulate SHARED_WINDOW --seed 10 --scenario clean --packets 2500 --patience 60 --with workers=4,ops=2,chunks=65,late=0,seq=0,run=1,lanes=4,slots=9,window=1,last=0,spared=46,chance=1
for name in LATENCY_FORM LATENCY_OLD_ACK LATENCY_ROUND LATENCY_WAITING LEFT_AT_ONCE LIFE SLOTS_EARLY OPINFO OPINFO_ROUND LAST_WORDS ENABLE_ACK; do search $name; done
