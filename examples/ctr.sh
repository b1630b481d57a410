#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ctr.sh [--fm] [FILE [EPOCHS]] - examples/ctr.c on this machine: the hot features of a sample, tallyd that sums their
# gradients, one tally-ps that has the parameters, 4 workers; then the same in one process, without tally. FILE:
# LIBSVM or Criteo's log; without one, 20,000 made rows. Fails if the workers' log loss on the rows that are held out is
# more than 5 % above the one process's. TALLY_BUILD: where the programs are.
set -euo pipefail
cd "$(dirname "$0")/.."
model=()
if [[ ${1:-} == --fm ]]; then
	model=(--fm)
	shift
fi
build=$(realpath "${TALLY_BUILD:-build/release}")
file=${1:+$(realpath "$1")} epochs=${2:-3}
tmp=$(mktemp -d)
pids=()

end() {
	kill "${pids[@]}" 2>/dev/null || true
	wait
	rm -rf "$tmp"
}
trap end EXIT
cd "$tmp"

# address LOG: where its program listens, as soon as it is ready.
address() {
	for _ in $(seq 200); do
		! grep -q 'ready on' "$1" || break
		sleep 0.05
	done
	sed -n 's/.*ready on \([^,]*\),.*/\1/p' "$1" | grep . || { cat "$1" >&2 && return 1; }
}

if [[ -z $file ]]; then
	"$build/examples/ctr" --generate 20000 >made
	file=made
fi
"$build/tools/tally" hot "$file" --p 90% --c 100% -o hot.map >hot.log
"$build/tools/tallyd" --listen 127.0.0.1:0 2>tallyd.log &
pids+=($!)
aggregator=$(address tallyd.log)
"$build/tools/tally-ps" --workers 4 --listen 127.0.0.1:0 --aggregator "$aggregator" --dir . \
	--table ctr.w,dim=1,optimizer=ftrl,rate=0.1,l2=1,map=hot.map \
	--table ctr.v,dim=8,optimizer=adagrad,rate=0.05,initial=normal,scale=0.05,map=hot.map \
	--table ctr.sums,dim=6,optimizer=sum 2>tally-ps.log &
pids+=($!)
TALLY_SERVERS=$(address tally-ps.log)
export TALLY_SERVERS

ctr=("$build/examples/ctr" "${model[@]}" --epochs "$epochs")
echo "4 workers, asynchronous:"
"$build/tools/tally" run -n 4 --no-prefix -- "${ctr[@]}" "$file" | tee many
echo "one process, without tally:"
"${ctr[@]}" --reference "$file" | tee one
paste <(tail -n 1 many) <(tail -n 1 one) | awk '{
	for (i = 1; i <= NF; i++)
		if ($i == "test") loss[++n] = $(i + 1)
	more = 100 * (loss[1] / loss[2] - 1)
	printf "log loss of 4 workers: %+.2f %% of that of one process\n", more
	exit !(n == 2 && more < 5) }'
