#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# glm.sh [ROWS [EPOCHS [RANKS]]] - a linear model of Fashion-MNIST by 4 ranks of this machine: images become rows,
# ranks share the columns, rank 0 writes a model, and that is evaluated. Ends with "test accuracy ...", and fails
# if it is below 0.83 (below 0.7 with fewer rows or epochs). TALLY_BUILD: where the programs are; TALLY_FASHION:
# where the data are (Debian: dataset-fashion-mnist).
set -euo pipefail
cd "$(dirname "$0")/.."
rows=${1:-60000} epochs=${2:-15} ranks=${3:-4}
tally=$(realpath "${TALLY_BUILD:-build/release}")/tools/tally
data=${TALLY_FASHION:-/usr/share/datasets/fashion-mnist}
if [[ ! -e $data/train-images-idx3-ubyte.gz ]]; then
	echo "SKIP: no Fashion-MNIST in $data (apt-get install dataset-fashion-mnist)"
	exit 77
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"

for part in train t10k; do
	"$tally" glm convert "$data/$part-images-idx3-ubyte.gz" "$data/$part-labels-idx1-ubyte.gz" -o "$part" --scaled
done
head -n "$rows" train >few

"$tally" run -n "$ranks" --no-prefix -- "$tally" glm train few -m fashion.model --test t10k \
	--bias 1 --rate 0.05 --epochs "$epochs" --json >curve
python3 -c '
import json
for line in open("curve"):
    epoch = json.loads(line)
    if "epoch" in epoch:
        print("epoch %(epoch)3d  loss %(loss).4f  test accuracy %(test_accuracy).4f  %(train_s).2f s" % epoch)'

least=0.83
((rows >= 60000 && epochs >= 15)) || least=0.7
"$tally" glm evaluate t10k -m fashion.model | tee scores
awk -v least="$least" '/^accuracy/ { accuracy = $2 }
	END { print "test accuracy " accuracy " of " '"$ranks"' " ranks"; exit !(accuracy >= least) }' scores
