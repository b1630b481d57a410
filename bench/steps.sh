#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# steps.sh [FOLDER...] - how good guesses of exponents are (R-WK-18), on gradients of consecutive steps: how many packets are
# done again, and how exact the sums are beside a ring's. Each FOLDER has those of one model and of 8 ranks, as
# bench/steps_record.py writes them; without one, they are recorded: of 63 steps of examples/fashion, and with PyTorch of
# three more models. PYTHON: one that has it (python3). TALLY_BUILD: where the programs are.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
build=$(realpath "${TALLY_BUILD:-build/release}")
python=${PYTHON:-python3}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failures=0 skipped=0

ranks() {
	TALLY_LOCAL=udp timeout 300 "$build/tools/tally" run -n 8 --no-prefix --aggregator local -- "$@"
}

if (($# == 0)); then
	if [[ ! -d /usr/share/datasets/fashion-mnist || ! -x $build/examples/fashion ]]; then
		echo "SKIP: no Fashion-MNIST (scripts/deps.sh demo): say which folders"
		exit 77
	fi
	mkdir "$tmp/fashion"
	ranks "$build/examples/fashion" --epochs 1 --images 16128 --batch 256 --gradients "$tmp/fashion" \
		--steps 63 >"$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }
	set -- "$tmp/fashion"
	for model in lenet cnn charlstm; do
		if ! "$python" -c 'import torch' 2>/dev/null; then
			echo "SKIP: $python has no PyTorch: $model is not recorded"
			skipped=77
			continue
		fi
		mkdir "$tmp/$model"
		"$python" bench/steps_record.py $model "$tmp/$model" || exit 1
		set -- "$@" "$tmp/$model"
	done
fi
# The last column: how far a step's sums were above the ring's, at least.
printf '%-24s %-6s %5s %10s %10s %10s %8s %8s %8s\n' gradients calls steps guessed again worst 'SNR dB' "ring's" least
for folder; do
	for way in "" --whole; do
		(cd "$folder/.." && ranks "$build/bench/steps" $way "$(basename "$folder")") || failures=$((failures + 1))
	done
done
((failures == 0)) || exit 1
exit "$skipped"
