#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# lab_delay.sh - lab.sh's delay: a packet takes as long as was asked for, each way on each link, and hardly longer; all
# bytes of a stream come through; and afterwards all is as it was. TALLY_BUILD: where the programs are.
set -euo pipefail
cd "$(dirname "$0")/../.."
export TALLY_BUILD=${TALLY_BUILD:-build/release} LAB=tally-delay-$$
tmp=$(mktemp -d)
# shellcheck source=tests/e2e/spaces.sh
. tests/e2e/spaces.sh
trap 'lab/lab.sh down 2>/dev/null; rm -rf "$tmp"' EXIT

fail() {
	echo "FAILED: $*"
	exit 1
}

# trips ADDRESS: the median and the least round trip of 40 packets to it, from worker 0 to worker 1, in us.
trips() {
	: >"$tmp/ready" # or the last one's would be read
	lab/lab.sh exec 1 python3 - "$1" >"$tmp/ready" <<-'END' &
		import socket, sys
		family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
		echo = socket.socket(family, socket.SOCK_DGRAM)
		echo.bind((sys.argv[1], 7000))
		echo.settimeout(20)
		print("ready", flush=True)
		while True:
		    data, peer = echo.recvfrom(2000)
		    if data == b"end":
		        break
		    echo.sendto(data, peer)
	END
	for _ in $(seq 100); do
		! grep -q ready "$tmp/ready" || break
		sleep 0.05
	done
	lab/lab.sh exec 0 python3 - "$1" <<-'END'
		import os, socket, statistics, sys, time
		family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
		ask = socket.socket(family, socket.SOCK_DGRAM)
		ask.settimeout(5)
		took = []
		for i in range(40):
		    data = os.urandom(1 + i * 1400 // 39)
		    begin = time.monotonic()
		    ask.sendto(data, (sys.argv[1], 7000))
		    assert ask.recv(2000) == data, "another packet has come back"
		    took.append((time.monotonic() - begin) * 1e6)
		ask.sendto(b"end", (sys.argv[1], 7000))
		print("%.0f %.0f" % (statistics.median(took), min(took)))
	END
	wait
}

# stream: 4 MB over TCP from worker 0 to worker 1, compared.
stream() {
	head -c 4000000 /dev/urandom >"$tmp/sent"
	: >"$tmp/ready" # or the last one's would be read
	lab/lab.sh exec 1 python3 - "$tmp/received" >"$tmp/ready" <<-'END' &
		import socket, sys
		listen = socket.create_server(("10.55.0.11", 7001))
		listen.settimeout(20)
		print("ready", flush=True)
		peer, _ = listen.accept()
		with open(sys.argv[1], "wb") as file:
		    while data := peer.recv(65536):
		        file.write(data)
	END
	for _ in $(seq 100); do
		! grep -q ready "$tmp/ready" || break
		sleep 0.05
	done
	lab/lab.sh exec 0 python3 -c '
import socket, sys
socket.create_connection(("10.55.0.11", 7001)).sendall(open(sys.argv[1], "rb").read())' "$tmp/sent"
	wait
	cmp "$tmp/sent" "$tmp/received" || fail "a stream over a delayed link has other bytes"
}

spaces_need lab_delay ip ethtool python3
lab/lab.sh up 2
addresses=10.55.0.11
[[ ! -e /proc/net/if_inet6 ]] || addresses+=' fd55::101'
lab/lab.sh delay 3000 || { (($? == 77)) && skip "lab_delay: no packet sockets, or no $TALLY_BUILD/lab/delay"; }
for address in $addresses; do # two links, both ways
	read -r median least < <(trips "$address")
	echo "$address: 4 x 3000 us: $least us at least, $median us at the median"
	((least >= 12000 && median < 18000)) || fail "a round trip over four delays of 3000 us"
done
lab/lab.sh delay 200
stream
lab/lab.sh delay off >"$tmp/report"
cat "$tmp/report"
grep -q 'lost: 0 (' "$tmp/report" || fail "the delay line has lost frames"
(($(sed 's/^delay: \([0-9]*\) frames.*/\1/' "$tmp/report") > 2 * 4000000 / 1500)) || fail "frames have gone around it"
for address in $addresses; do
	read -r median least < <(trips "$address")
	echo "$address: without: $least us at least, $median us at the median"
	((least < 3000)) || fail "a delay has stayed"
done
lab/lab.sh delay 1000
lab/lab.sh down 2>/dev/null
[[ ! -e /run/$LAB.delay ]] || fail "a delay line is still there"
