#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# torch-test.sh [FOLDER] - test the backend for PyTorch: makes a virtual environment with torch, numpy and mypy in FOLDER
# (build/torch) unless it is there, and runs the tests of bindings/python there with the libtally of build/release. Where
# the package index cannot be reached, it says SKIP and exits 77.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(realpath -m "${1:-build/torch}")
version=2.13.0

if ! "$folder/bin/python" -c 'import torch, numpy, mypy' 2>/dev/null; then
	python3 -m venv "$folder" || { echo "SKIP: python3 makes no virtual environment (apt-get install python3-venv)" && exit 77; }
	timeout 900 "$folder/bin/pip" install -q --retries 1 "torch==$version" numpy mypy >"$folder/pip.log" 2>&1 || {
		tail -3 "$folder/pip.log"
		echo "SKIP: torch $version cannot be had from the package index"
		exit 77
	}
fi
scripts/setup.sh release
ninja -C build/release src/libtally.so.0.1.0 >/dev/null
export TALLY_LIBRARY=$PWD/build/release/src/libtally.so.0 PYTHONDONTWRITEBYTECODE=1
(cd bindings/python && "$folder/bin/mypy" --strict --cache-dir "$folder/mypy" tally tally_autoload.py)
for name in torch torch_matrix torch_examples; do
	"$folder/bin/python" "bindings/python/tests/${name}_test.py"
done
