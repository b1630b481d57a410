#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# commit.sh - the commit that this tree is of, for the version that programs print. Fails where there is
# none: in an unpacked tarball, be it inside of somebody else's repository.
set -euo pipefail
cd "$(dirname "$0")/.."
[[ $(git rev-parse --show-toplevel 2>/dev/null) == "$(pwd -P)" ]]
git rev-parse --short=12 HEAD
