#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# torch-test.sh [NAME...] - test the backend for PyTorch, all of it or bindings/python/tests/NAME_test.py alone: in a virtual
# environment, build/torch, which is made with torch (its CPU build) and the packages below unless it is there, with the libtally of
# TALLY_LIBRARY, else of build/release. `make test` runs it. Where torch cannot be had, it says so and exits 77.
set -euo pipefail
cd "$(dirname "$0")/.."
version=2.13.0+cpu
packages=(mypy==2.4.1 numpy==2.4.6 expecttest==0.3.0)
folder=$PWD/build/torch names=("$@")
((${#names[@]})) || names=(torch torch_matrix torch_elastic torch_examples)

# as_wanted: all is there, and of these versions.
as_wanted() {
	"$folder/bin/python" - "torch==$version" "${packages[@]}" 2>/dev/null <<-END
		import sys, torch
		from importlib.metadata import version
		sys.exit(any(version(name) != wanted for name, wanted in (word.split("==") for word in sys.argv[1:])))
	END
}

# lacks WHAT: no package of Debian's brings it.
lacks() {
	echo "NOT HERE: torch $version: $1"
	exit 77
}

if ! as_wanted; then
	mkdir -p build
	if ! python3 -m venv "$folder" >"$folder.log" 2>&1; then
		echo "SKIP: no python3-venv (scripts/deps.sh test): $folder.log"
		exit 77
	fi
	# torch's own index has builds without what a GPU needs; another place may have them, too.
	timeout 480 "$folder/bin/pip" install -q --retries 1 --timeout 30 --extra-index-url https://download.pytorch.org/whl/cpu \
		"torch==$version" "${packages[@]}" >>"$folder.log" 2>&1 ||
		lacks "the package index does not give it ($folder.log): $(tail -1 "$folder.log")"
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
