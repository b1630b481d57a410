# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# tables.sh - what ctr.sh, ctr_steps.sh and deep.sh have in common; source it: a folder, rows, tallyd, tally-ps, and a comparison.
build=$(realpath "${TALLY_BUILD:-build/release}")
tmp=$(mktemp -d)
pids=()

end() {
	((${#pids[@]} == 0)) || kill "${pids[@]}" 2>/dev/null || true
	wait
	rm -rf "$tmp"
}
trap end EXIT

# rows_take FILE COUNT: becomes $file; COUNT made rows if it is "". Their hot features are in $map.
rows_take() {
	file=$1 map=$tmp/hot.map
	if [[ -z $file ]]; then
		file=$tmp/made
		"$build/examples/ctr" --generate "$2" >"$file"
	fi
	"$build/tools/tally" hot "$file" --p 90% --c 100% -o "$map" >"$tmp/hot.log"
}

# model_tables PREFIX SEED WORD...: a weight and 8 factors of each feature, the words of tally-ps for these tables.
model_tables() {
	local words
	words=$(printf ',%s' "map=$map" "${@:3}")
	echo "$1.w,dim=1,optimizer=ftrl,rate=0.1,l2=1$words"
	echo "$1.v,dim=8,optimizer=adagrad,rate=0.05,initial=normal,scale=0.05,seed=$2$words"
	[[ $1 != ctr ]] || echo ctr.sums,dim=6,optimizer=sum
}

# address LOG: where its program listens, as soon as it is ready.
address() {
	for _ in $(seq 200); do
		! grep -q 'ready on' "$1" || break
		sleep 0.05
	done
	sed -n 's/.*ready on \([^,]*\),.*/\1/p' "$1" | grep . || { cat "$1" >&2 && return 1; }
}

# tables_start PREFIX SEED WORD...: tallyd, and tally-ps for 4 workers with model_tables, as TALLY_AGGREGATOR and TALLY_SERVERS.
tables_start() {
	: >tallyd.log
	: >tally-ps.log
	"$build/tools/tallyd" --listen 127.0.0.1:0 2>tallyd.log &
	pids+=($!)
	TALLY_AGGREGATOR=$(address tallyd.log)
	# shellcheck disable=SC2046 # words
	"$build/tools/tally-ps" --workers 4 --listen 127.0.0.1:0 --aggregator "$TALLY_AGGREGATOR" --dir . \
		$(model_tables "$@" | sed 's/^/--table /') 2>tally-ps.log &
	pids+=($!)
	TALLY_SERVERS=$(address tally-ps.log)
	export TALLY_AGGREGATOR TALLY_SERVERS
}

# loss_compare MANY ONE PERCENT: of the rows that are held out, by what both have printed last; fails if MANY is so much worse.
loss_compare() {
	paste <(tail -n 1 "$1") <(tail -n 1 "$2") | awk -v bound="$3" '{
		for (i = 1; i <= NF; i++)
			if ($i == "test") loss[++n] = $(i + 1)
		more = 100 * (loss[1] / loss[2] - 1)
		printf "log loss of 4 workers: %+.2f %% of that of one process\n", more
		exit !(n == 2 && more < bound) }'
}
