#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-skips.sh - scripts/testlog.py finds what tests did without, and tells what Debian has from what no package
# brings; scripts/test.sh turns red of the former as root on Debian 12, and nowhere else.
set -euo pipefail
cd "$(dirname "$0")/.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

fail() { echo "$*" && cat "$tmp/err" && exit 1; }

# log FILE: a log of meson's, of lines "RESULT:NAME:what it says"; \n parts its lines.
log() {
	local result name said
	while IFS=: read -r result name said; do
		printf '{"name": "tally:unit / %s", "result": "%s", "stdout": "one\\n%s\\n", "stderr": ""}\n' "$name" "$result" "$said"
	done >"$1"
}

log "$tmp/log" <<-'END'
	OK:well:SKIPPED, NOT HEREABOUTS
	OK:part:SKIP: no ::1\n[  SKIPPED ] it
	OK:cmocka:[ RUN      ] told\nSKIP: no veth\n[  SKIPPED ] told\n[ RUN      ] silent\n[  SKIPPED ] silent\n[==========] 2 test(s) run.\n[  SKIPPED ] 2 test(s), listed below:\n[  SKIPPED ] told
	OK:table:# SKIP: no Open MPI
	OK:small:[ RUN      ] wide\nNOT HERE: AVX-512\n[  SKIPPED ] wide\nNOT HERE: AVX-512
	OK:mixed:NOT HERE: AVX-512\nSKIP: no ::1
	FAIL:ill:SKIP: no ::1
	SKIP:all:SKIP: no Open MPI (scripts/deps.sh bench)
	SKIP:gpu:NOT HERE: a GPU
	SKIP:silent:no word about it
END
counts=$(python3 scripts/testlog.py log "$tmp/log" 2>"$tmp/err")
[[ $counts == "2 1 7 6" ]] || fail "2 passed, 1 failed, 7 skipped, 6 of them lacking: $counts"
grep -v '^FAILED\|^ ' "$tmp/err" | diff - /dev/fd/3 3<<-'END' || fail "others are said to be missing"
	skipped: log part: no ::1
	skipped: log cmocka: no veth
	skipped: log cmocka: silent: no reason given
	skipped: log table: no Open MPI
	not here: log small: AVX-512
	not here: log mixed: AVX-512
	skipped: log mixed: no ::1
	skipped: log all: no Open MPI (scripts/deps.sh bench)
	not here: log gpu: a GPU
	skipped: log silent: no reason given
END
log "$tmp/twice" <<<$'FAIL:one:ill\nOK:one:well'
! python3 scripts/testlog.py log "$tmp/twice" 2>"$tmp/err" || fail "of two tests of one name, one is lost"

# All that test.sh calls, of no effect; its user and its system are what the test says.
mkdir -p "$tmp/tree/scripts" "$tmp/tree/build"/{release,asan}/meson-logs "$tmp/bin"
sed "s|/etc/os-release|$tmp/os-release|g; s|EUID|TEST_USER|g" scripts/test.sh >"$tmp/tree/scripts/test.sh"
cp scripts/testlog.py scripts/sudo.sh "$tmp/tree/scripts"
for nothing in scripts/setup.sh scripts/deps.sh scripts/chosen.py; do
	ln -s /bin/true "$tmp/tree/$nothing"
done
ln -s /bin/true "$tmp/bin/ninja"
cat >"$tmp/bin/meson" <<END
#!/bin/sh
case "\$*" in
*as-root*) cp $tmp/log-as-root "\$3/meson-logs/as-root.json" ;;
*) cp $tmp/log "\$3/meson-logs/testlog.json" ;;
esac
END
cat >"$tmp/bin/sudo" <<END
#!/bin/sh
[ -e $tmp/may-sudo ] || exit 1
shift
[ "\$*" != "id -u" ] || { echo 0 && exit; }
echo "\$*" >$tmp/asked
exec "\$@"
END
printf '#!/bin/sh\necho "$*" >%s\n' "$tmp/owned" >"$tmp/bin/chown"
chmod +x "$tmp/bin"/{meson,sudo,chown} "$tmp/tree/scripts/test.sh"

# ends STATUS LAST_LINE USER VERSION [VARIANT]: how test.sh ends.
ends() {
	local status=0
	printf 'ID=debian\nVERSION_ID="%s"\n' "$4" >"$tmp/os-release"
	TEST_USER=$3 PATH=$tmp/bin:$PATH "$tmp/tree/scripts/test.sh" "${5-release}" >"$tmp/out" 2>"$tmp/err" || status=$?
	[[ $status == "$1" && $(tail -n 1 "$tmp/out") == "$2" ]] ||
		fail "user $3, Debian $4: test.sh ends with $status, not $1, and $(cat "$tmp/out")"
}
log "$tmp/log" <<<$'OK:one:well\nOK:other:SKIP: no ::1'
ends 1 "2 passed, 0 failed, 1 skipped" 0 12
grep -q '^FAILED: 1 skipped as root on Debian 12' "$tmp/out" || fail "nobody says why it is red"
ends 0 "2 passed, 0 failed, 1 skipped" 1000 12
ends 0 "2 passed, 0 failed, 1 skipped" 0 13

# With sudo, what was skipped runs again, and only that; the second run has the last word.
touch "$tmp/may-sudo"
log "$tmp/log" <<<$'OK:one:well\nOK:other:SKIP: no ::1\nSKIP:third:SKIP: not root\nSKIP:gpu:NOT HERE: a GPU'
log "$tmp/log-as-root" <<<$'OK:other:well\nOK:third:well'
ends 1 "2 passed, 0 failed, 3 skipped" 0 12
[[ ! -e $tmp/asked ]] || fail "root has them run again: $(cat "$tmp/asked")"
ends 0 "4 passed, 0 failed, 1 skipped" 1000 12 asan
grep -qe ' -t 4 --logbase as-root other third$' "$tmp/asked" || fail "they are asked to run again: $(cat "$tmp/asked")"
[[ $(cat "$tmp/owned") == "-R $(id -u):$(id -g) build/" ]] || fail "what root made stays root's"
log "$tmp/log-as-root" <<<$'OK:other:SKIP: no ::1\nFAIL:third:ill'
ends 1 "2 passed, 1 failed, 2 skipped" 1000 12
rm "$tmp/may-sudo"
ends 0 "2 passed, 0 failed, 3 skipped" 1000 12
# Root's run that does not come about is one that lacks all.
touch "$tmp/may-sudo"
rm "$tmp/log-as-root"
ends 1 "2 passed, 0 failed, 3 skipped" 1000 12
ends 0 "2 passed, 0 failed, 3 skipped" 1000 13
rm "$tmp/may-sudo"

log "$tmp/log" <<<$'OK:one:well\nOK:other:NOT HERE: AVX-512\nSKIP:third:NOT HERE: a GPU'
ends 0 "3 passed, 0 failed, 1 skipped" 0 12
log "$tmp/log" <<<$'OK:one:well\nFAIL:other:ill'
ends 1 "2 passed, 1 failed, 0 skipped" 1000 13
: >"$tmp/log"
ends 1 "1 passed, 1 failed, 0 skipped" 1000 13
echo "skips are told apart: $counts"
