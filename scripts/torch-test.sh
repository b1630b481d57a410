#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# torch-test.sh [NAME...] - test the backend for PyTorch, all of it or bindings/python/tests/NAME_test.py alone: in a virtual
# environment, build/torch, which is made with torch (its CPU build), numpy and mypy unless it is there, with the libtally of
# TALLY_LIBRARY, else of build/release. `make test` runs it. Where torch cannot be had, it says so and exits 77.
set -euo pipefail
cd "$(dirname "$0")/.."
version=2.13.0+cpu
folder=$PWD/build/torch names=("$@")
((${#names[@]})) || names=(torch torch_matrix torch_elastic torch_examples)

# as_wanted: all is there, and of this version.
as_wanted() {
	[[ $("$folder/bin/python" -c 'import numpy, mypy.version, torch, expecttest; print(torch.__version__)' 2>/dev/null) == "$version" ]]
}

# lacks WHAT: no package of Debian's brings it.
lacks() {
	echo "NOT HERE: torch $version: $1"
	exit 77
}

if ! as_wanted; then
	python3 -m venv "$folder" >"$folder.log" 2>&1 || lacks "python3 makes no virtual environment (apt-get install python3-venv)"
	# torch's own index has builds without what a GPU needs; another place may have them, too.
	timeout 480 "$folder/bin/pip" install -q --retries 1 --timeout 30 --extra-index-url https://download.pytorch.org/whl/cpu \
		"torch==$version" numpy mypy expecttest >>"$folder.log" 2>&1 || lacks "the package index does not give it ($folder.log): $(tail -1 "$folder.log")"
	as_wanted || lacks "it does not start ($folder.log)"
fi
if [[ ! ${TALLY_LIBRARY-} ]]; then
	scripts/setup.sh release
	ninja -C build/release src/libtally.so.0.1.0 >/dev/null
	export TALLY_LIBRARY=$PWD/build/release/src/libtally.so.0
fi
export PYTHONDONTWRITEBYTECODE=1
(cd bindings/python && "$folder/bin/mypy" --strict --cache-dir "$folder/mypy" tally tally_autoload.py)
for name in "${names[@]}"; do
	"$folder/bin/python" "bindings/python/tests/${name}_test.py"
done
