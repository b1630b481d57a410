#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-python.sh - the types of the Python package are those that it says (mypy --strict).
set -euo pipefail
cd "$(dirname "$0")/../bindings/python"
mypy=$(command -v mypy) || { echo "SKIP: no mypy (scripts/deps.sh test)" && exit 77; }
# Nothing is left in the tree. scripts/torch-test.sh checks what needs torch's types.
exec "$mypy" --strict --cache-dir /dev/null --exclude '^tally/torch/' tally
