#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# from_wheel.sh - the wheel in a Debian 12 that has Python, pip and numpy, no compiler, no libtally, no libjansson, and no
# network: a user installs it into a virtual environment, and four ranks do README's example there. TALLY_BUILD: beside it
# stays the Debian, for a week. Needs root, mmdebstrap and, when it is made, a mirror.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "${TALLY_BUILD:-build/release}")
export LAB=tally-from-wheel-$$
# shellcheck source=tests/e2e/spaces.sh
. tests/e2e/spaces.sh
spaces_need from_wheel mmdebstrap ip unshare
root=$(mktemp -d "$(dirname "$build")/from_wheel.XXXXXX")
trap 'rm -rf "$root" "$root.tar"' EXIT

packages=python3-venv,python3-pip,python3-numpy
debian=$(dirname "$build")/debian-12-python.tar
if [[ ! -s $debian || $(find "$debian" -mtime +6) ]]; then
	if nice -n 19 mmdebstrap --variant=minbase --aptopt='Acquire::Retries "3"' --include="$packages" bookworm "$root.tar" \
		>"$root/log" 2>&1; then
		mv "$root.tar" "$debian"
		echo "made $debian: $SECONDS s"
	else
		tail -n 20 "$root/log"
		[[ -s $debian ]] || { echo "FAILED: no Debian to install into: mmdebstrap, above; is there a network?" && exit 1; }
	fi
fi
tar -x --exclude='./dev/*' -f "$debian" -C "$root"
mkdir -p "$root/wheels"
# shellcheck disable=SC2016 # Python's
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=bindings/python python3 -c 'import sys, wheel_backend; print(wheel_backend.build_wheel(sys.argv[1]))' \
	"$root/wheels" 2>"$root/log" || { cat "$root/log" && exit 1; }
sed -n "s/.*tally run -n 4 -- [^ ]*python3* -c '\(.*\)'\$/\1/p" README.md >"$root/example.py"
[[ -s $root/example.py ]] || { echo "FAILED: README has no example for four ranks to try" && exit 1; }

cat >"$root/install" <<'END'
set -euo pipefail
fail() { echo "FAILED: $*" && exit 1; }
useradd --create-home dev
cd /home/dev
for name in cc gcc meson; do
	! command -v "$name" || fail "this Debian has $name"
done
! ldconfig -p | grep -E 'libtally|libjansson' || fail "this Debian has libraries that the wheel brings"
setpriv --reuid dev --regid dev --clear-groups env HOME=/home/dev bash -euo pipefail -c '
	python3 -m venv --system-site-packages venv
	venv/bin/pip install --quiet --no-index /wheels/*.whl
	for rank in 0 1 2 3; do
		TALLY_RANK=$rank TALLY_SIZE=4 TALLY_AGGREGATOR=local TALLY_JOB=bare timeout 60 venv/bin/python /example.py >said.$rank 2>&1 &
		ranks[rank]=$!
	done
	for rank in 0 1 2 3; do
		wait ${ranks[rank]} || { cat said.* && exit 1; }
	done' || fail "the wheel does not work here"
cat said.0
[[ $(cat said.?) == "$(printf '[4. 4. 4. 4.]\n%.0s' 1 2 3 4)" ]] || fail "not what README's example should print: $(cat said.?)"
END

# shellcheck disable=SC2016 # the inner ones expand it
nice -n 19 unshare --mount --net --pid --fork --kill-child bash -euc '
	ip link set lo up
	mount -t proc proc "$1/proc"
	mount --rbind /dev "$1/dev"
	exec chroot "$1" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root bash /install' \
	bash "$root" </dev/null
echo "from the wheel: $SECONDS s"
