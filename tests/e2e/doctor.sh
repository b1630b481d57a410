#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# doctor.sh [4|6] - tally doctor on this machine, with an aggregator over IPv4 or IPv6: what it must find, and
# what it must say of what is wrong.
set -uo pipefail
build=${TALLY_BUILD:-build/release} family=${1:-4}
loopback=127.0.0.1 near=10.9.0.1/24 far=10.8.0.7/24 network=10.8.0.0/16
[[ $family == 4 ]] || loopback=::1 near=fd56:9::1/64 far=fd56:8::7/64 network=fd56:8::/32
if [[ $family == 6 && ! -e /proc/net/if_inet6 ]]; then
	echo "SKIP: no IPv6 in this kernel"
	exit 77
fi
tmp=$(mktemp -d)
tallyd='' proxy='' other=
trap '[[ $tallyd ]] && kill "$tallyd"; [[ $proxy ]] && kill "$proxy"; [[ $other ]] && kill "$other"; rm -rf "$tmp"' EXIT
export HOME=$tmp
unset "${!TALLY_@}"
failures=0

fail() {
	echo "FAILED: $*"
	sed 's/^/  out: /' "$tmp/out"
	sed 's/^/  err: /' "$tmp/err"
	failures=$((failures + 1))
}

# doctor STATUS [ARGUMENT...] - its exit status must be that.
doctor() {
	local expected=$1 status=0
	shift
	timeout 60 "$build/tools/tally" doctor "$@" >"$tmp/out" 2>"$tmp/err" || status=$?
	((status == expected)) || fail "doctor $*: exit status $status, not $expected"
}

# says PATTERN - a line of its output is so.
says() {
	grep -Eq -- "$1" "$tmp/out" || { fail "no line like $1" && return 1; }
}

# names FAULT PATTERN - that line names what is wrong here, on purpose.
faults=()
names() {
	says "$2" && faults+=("$1")
}

# start [ARGUMENT...] - a tallyd; $address is then where it listens.
start() {
	: >"$tmp/tallyd" # what the last one said is over
	"$build/tools/tallyd" --log-level debug "$@" 2>>"$tmp/tallyd" &
	tallyd=$!
	for _ in {1..100}; do
		grep -q 'ready on .* shard' "$tmp/tallyd" && break
		sleep 0.1
	done
	address=$(sed -nE 's/.*ready on ([][0-9a-f.:]+).*/\1/p' "$tmp/tallyd" | sed -n 1p)
	address_re=${address/\[/\\[} # as a pattern has it
}

# host IP - as it stands before a port.
host() {
	[[ $1 == *:* ]] && echo "[$1]" || echo "$1"
}

stop() {
	kill "$tallyd"
	wait "$tallyd"
	tallyd=
}

# Control and data leave from the address that TALLY_IFNAME names. In a network of our own.
leaves_from() {
	ip link set lo up
	ip address add "$near" dev lo
	ip address add "$far" dev lo
	start --listen "$(host "${near%/*}"):7171"
	TALLY_AGGREGATOR=$(host "${near%/*}") TALLY_IFNAME=$network doctor 0
	says "^ok    ifname +TALLY_IFNAME=$network takes lo ${far%/*}"
	grep -qF "joins from $(host "${far%/*}"):" "$tmp/tallyd" || fail "control leaves from elsewhere"
	grep -qF "hears it from $(host "${far%/*}"):" "$tmp/tallyd" || fail "data leave from elsewhere"
	stop
}
if [[ ${2-} == leaves_from ]]; then
	leaves_from
	exit "$failures"
fi
# Root needs no user namespace for it, and in a chroot there is none.
alone=(unshare --net)
((EUID == 0)) || alone+=(--user --map-root-user)
if "${alone[@]}" true 2>/dev/null; then
	TALLY_BUILD=$build "${alone[@]}" "$0" "$family" leaves_from || failures=$((failures + 1))
else
	echo "SKIP: a network of its own (unshare)"
fi

doctor 0
says "^ok    kernel +Linux $(uname -r)"
says '^ok    udp-segment'
says '^ok    udp-gro'
says '^(ok  |warn)  receive-buffer +[0-9]+ KiB'
says '^ok    bpf'
says '^ok    launcher +none'
says "^ok    config +$tmp/.tally.conf: not there"
says '^ok    join +local mode: full packets of [0-9]+ numbers'
says '^ok    sum'
says '^ok    loss +of [0-9]+ packets .* [0-2] (was|were) lost'
says ' 0 fail$'
[[ -s $tmp/err ]] && fail "stderr"

start --listen "$(host "$loopback"):0"
doctor 0 --aggregator "$address"
says "^ok    tcp +aggregator $address_re answers after [0-9.]+ ms; MTU of the route: [0-9]+"
says "^ok    join +$address_re: "
TALLY_IFNAME=lo TALLY_AGGREGATOR=$address doctor 0
says "^ok    ifname +TALLY_IFNAME=lo takes lo $loopback"
TALLY_IFNAME=nosuch doctor 0
names "TALLY_IFNAME matches nothing, local mode" '^warn  ifname +TALLY_IFNAME=nosuch matches no IPv4 address here: .*lo 127\.0\.0\.1'
TALLY_IFNAME=nosuch doctor 1 --aggregator "$address"
names "TALLY_IFNAME matches nothing" "^fail  ifname +TALLY_IFNAME=nosuch matches no IPv$family address here: .*lo $loopback"
echo "TALLY_AGGREGATOR=$address" >"$tmp/.tally.conf"
doctor 0
says "^ok    config +$tmp/.tally.conf: read"
says "^ok    join +$address_re: "
TALLY_RANK=1 doctor 1
names "half of who I am" '^fail  launcher +half of .*TALLY_RANK=1 TALLY_SIZE=\(not set\)'
TALLY_RANK=5 TALLY_SIZE=2 doctor 1
names "a rank that the job does not have" '^fail  launcher +TALLY_RANK=5 but TALLY_SIZE=2'
TALLY_DEADLINE_S=soon doctor 1
names "a setting that is no number" '^fail  settings +TALLY_DEADLINE_S=soon'
echo 'TALLY_AGREGATOR=x' >"$tmp/.tally.conf"
doctor 1
names "a variable that does not exist" "^fail  config +$tmp/.tally.conf:1: TALLY_AGREGATOR: there is no such variable"
printf 'TALLY_KEY=hunter2\n' >"$tmp/.tally.conf"
chmod 644 "$tmp/.tally.conf"
doctor 0
names "a key that others may read" "^warn  config +$tmp/.tally.conf holds a key"
grep -q hunter "$tmp/out" "$tmp/err" && fail "the key is shown"
rm "$tmp/.tally.conf"

doctor 0 --json --aggregator "$address"
while IFS= read -r line; do
	[[ $line == '{"check":"'*'"status":"'*'"text":"'*'}' ]] || fail "JSON: $line"
done <"$tmp/out"

# lossy PERCENT [BYTES] - from $lossy to $address, TCP and UDP; of UDP so much is lost each way, with a seed, and all
# datagrams of more BYTES. False: somebody has the port that it needs.
lossy() {
	coproc PROXY { exec python3 -c "$forward" "$loopback" "${address##*:}" "$1" "${2:-65536}"; }
	proxy=$PROXY_PID
	[[ ${PROXY[0]:-} ]] && read -r lossy <&"${PROXY[0]}"
}

lossy_end() {
	[[ $proxy ]] || return 0
	kill "$proxy"
	wait "$proxy"
	proxy=
} 2>/dev/null

if [[ $family == 4 ]] && command -v python3 >/dev/null; then
	forward='
import random, select, socket, sys
to, share, most, draw = (sys.argv[1], int(sys.argv[2])), float(sys.argv[3]) / 100, int(sys.argv[4]), random.Random(1)
def bound(kind):
    made = socket.socket(socket.AF_INET, kind)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.2", to[1]))
    return made
listener, front, back = bound(socket.SOCK_STREAM), bound(socket.SOCK_DGRAM), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
listener.listen()
back.connect(to)
for one in front, back:
    one.setsockopt(socket.SOL_SOCKET, 8, 8 << 20) # SO_RCVBUF
pairs, client = {}, None
print("127.0.0.2:%d" % to[1], flush=True)
while True:
    for one in select.select([listener, front, back, *pairs], [], [])[0]:
        if one is listener:
            up, down = socket.create_connection(to), one.accept()[0]
            pairs[up], pairs[down] = down, up
        elif one is front:
            data, client = one.recvfrom(65536)
            if draw.random() >= share and len(data) <= most:
                back.send(data)
        elif one is back:
            data = one.recv(65536)
            if draw.random() >= share and len(data) <= most:
                front.sendto(data, client)
        elif one in pairs:
            data = one.recv(65536)
            if data:
                pairs[one].sendall(data)
            else:
                other = pairs.pop(one)
                del pairs[other]
                one.close()
                other.close()
'
	listen='
import socket, time
listener = socket.create_server(("127.0.0.1", 0))
print("127.0.0.1:%d" % listener.getsockname()[1], flush=True)
time.sleep(60)
'
	for _ in {1..5}; do # the port that TCP was given, for UDP and for the way as well
		stop
		start --listen "$address"
		if [[ $address ]] && lossy 0; then
			lossy_end
			break
		fi
		lossy_end
		stop
		start --listen "$loopback:0"
	done
	for percent in 5 40; do
		lossy "$percent" || fail "no way that loses $percent %"
		doctor "$((percent == 40))" --aggregator "$lossy"
		names "$percent % loss" "^$( ((percent == 40)) && echo 'fail ' || echo 'warn ') loss +of [0-9]+ packets .* [0-9.]+ % were lost, of their answers"
		grep " loss " "$tmp/out"
		there=$(sed -nE 's/^.* loss .* aggregator ([0-9]+)\.[0-9] % were lost.*/\1/p' "$tmp/out")
		((${there:-0} >= percent / 2)) || fail "of $percent % doctor has seen ${there:-none}"
		grep -q firewall "$tmp/out" && fail "advice about firewalls for losses"
		for _ in {1..100}; do # its log
			grep -qE 'over after .*came again, for they had been lost' "$tmp/tallyd" && break
			sleep 0.1
		done
		grep -qE 'over after .*came again, for they had been lost' "$tmp/tallyd" || fail "tallyd does not say what was lost"
		: >"$tmp/tallyd"
		TALLY_AGGREGATOR=$lossy TALLY_JOB=lossy TALLY_RANK=0 TALLY_SIZE=1 timeout 60 "$build/tools/tally" bench allreduce \
			--elements 1000000 --iters 1 >"$tmp/out" 2>"$tmp/err"
		grep -qE 'warn .*left after .* packets out, .* sent again, for they had been lost' "$tmp/err" ||
			fail "a job that loses $percent % does not say so"
		lossy_end
	done
	lossy 100 || fail "no way that loses all"
	doctor 1 --aggregator "$lossy"
	names "no UDP" '^fail  join .*UDP to .* does not'
	says '-> .*firewall'
	lossy_end
	lossy 0 1000 || fail "no way that loses what is long"
	doctor 1 --aggregator "$lossy"
	names "a smaller MTU on the path" '^fail  join .*path MTU is below [0-9]+: .* get no answer, short ones do'
	grep -q firewall "$tmp/out" && fail "advice about firewalls for an MTU"
	lossy_end
	coproc PROXY { exec python3 -c "$listen"; }
	proxy=$PROXY_PID
	read -r lossy <&"${PROXY[0]}"
	doctor 1 --aggregator "$lossy"
	names "another program listens" '-> is it tallyd that listens there, or another program\?$'
	lossy_end
elif [[ $family == 4 ]]; then
	echo "SKIP: a way that loses packets, another program that listens: no python3 (scripts/deps.sh test)"
fi

stop
doctor 1 --aggregator "$address"
names "nobody listens" "^fail  tcp +aggregator $address_re: Connection refused"
says '-> is tallyd running there, on that port\?$'
grep -q join "$tmp/out" && fail "it joins although TCP failed"
doctor 1 --aggregator nosuchhost.invalid
names "no such host" '^fail  tcp .*nosuchhost.invalid'

# What it finds full, or about to end, is not a firewall either.
start --listen "$(host "$loopback"):0" --jobs-max 1
TALLY_AGGREGATOR=$address TALLY_JOB=other TALLY_RANK=0 TALLY_SIZE=1 "$build/tools/tally" bench allreduce \
	--elements 10000 --iters 1000000 >/dev/null 2>&1 &
other=$!
for _ in {1..100}; do
	grep -q 'job other.* started' "$tmp/tallyd" && break
	sleep 0.1
done
doctor 1 --aggregator "$address"
names "all jobs in use" '^fail  join .*jobs-max'
says '-> wait until others have ended, or raise that limit'
grep -q firewall "$tmp/out" && fail "advice about firewalls where all jobs are in use"
kill -TERM "$tallyd"
sleep 0.5
doctor 1 --aggregator "$address"
names "an aggregator that ends" '^fail  join .*shutting down'
grep -q firewall "$tmp/out" && fail "advice about firewalls where it is draining"
kill "$other"
wait "$other" "$tallyd"
other='' tallyd=

# the key that a worker knows gets to the aggregator
printf 'hunter2\n' >"$tmp/key"
chmod 600 "$tmp/key"
start --listen "$(host "$loopback"):0" --key-file "$tmp/key"
doctor 1 --aggregator "$address"
names 'no key' '^fail  join .*key'
says '-> give TALLY_KEY'
grep -q firewall "$tmp/out" && fail "advice about firewalls for a missing key"
TALLY_KEY=hunter3 doctor 1 --aggregator "$address"
names 'another key' '^fail  join .*key'
TALLY_KEY_FILE=$tmp/key doctor 0 --aggregator "$address"
says '^ok    settings .* a key'
says '^ok    sum'
stop
grep -q hunter "$tmp/out" "$tmp/err" "$tmp/tallyd" && fail "a key is shown"

doctor 2 --frobnicate
doctor 2 --aggregator a --aggregator b
doctor 2 now
doctor 0 --help
says '^tally doctor'
((family == 6 || EUID || ${#faults[@]} >= 16)) || fail "only ${#faults[@]} faults: as root all can be had"
echo "${#faults[@]} faults named:$(printf ' %s;' "${faults[@]}")"
((failures == 0)) && echo "all promises hold"
((failures == 0))
