#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-symbols.sh LIBTALLY.SO LIBTALLY.A - only tally_ names leave the library, in both forms, and
# the same ones.
set -euo pipefail
shared=$(nm -D --defined-only "$1" | awk '{ print $NF }' | sort)
static=$(nm -g --defined-only "$2" | awk 'NF == 3 { print $NF }' | sort)
echo "$(wc -w <<<"$shared") names"
bad=0
if ! grep -q '^tally_' <<<"$shared"; then
	echo "$1 exports nothing"
	bad=1
fi
if grep -v '^tally_' <<<"$shared"$'\n'"$static"; then
	echo 'these names are not ours to take: give them static or hidden visibility'
	bad=1
fi
diff <(echo "$shared") <(echo "$static") || bad=1
exit "$bad"
