#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# hot.sh - tally hot as people use it, held against counts, hashes and maps that are made without it. TALLY_BUILD:
# where the programs are.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
# shellcheck source=tests/e2e/command.sh
. tests/e2e/command.sh

hot() { # STATUS ARGUMENT...
	try "$1" hot "${@:2}"
}

# The reference: reads maps and counts keys. check CLAIM...: a claim about what it has.
cat >reference.py <<'PYTHON'
import collections, json, math, struct, sys, zlib

def fnv(text):
    h = 0xcbf29ce484222325
    for b in text.encode():
        h = (h ^ b) * 0x100000001b3 % 2**64
    return h

def rows_of(path):
    return [[int(k) for k in line.split()] for line in open(path)]

def count(path):
    return collections.Counter(k for row in rows_of(path) for k in row)

def read_map(path):
    data = open(path, "rb").read()
    assert data[:8] == b"tallyhot"
    form, crc, table, version, keys, hot, all_ = struct.unpack("<4I3Q", data[8:48])
    assert form == 1 and crc == zlib.crc32(data[16:]) and len(data) == 48 + 8 * keys
    keys = struct.unpack("<%dQ" % keys, data[48:])
    assert len(set(keys)) == len(keys)
    return dict(table=table, version=version, keys=keys, hot=hot, all=all_)

def principle(counts, p):
    total, so_far = sum(counts.values()), 0
    for k, (key, n) in enumerate(counts.most_common(), 1):
        so_far += n
        if so_far >= p * total * (1 - 1e-12):
            return k

def knee(counts):
    heat = sorted(counts.values(), reverse=True)
    k = 0
    while k < len(heat) and sum(heat[k:k + 1000]) >= 0.01 * sum(heat):
        k = min(k + 1000, len(heat))
    return k

# The k hottest, whatever the order of those with equal counts.
def are_hottest(keys, counts):
    heat = [counts[k] for k in keys]
    return heat == sorted(counts.values(), reverse=True)[:len(keys)]

# |Hg and Hs| / |Hg|, least and most, by who of those with equal counts belongs to Hg.
def precision(sampled, counts, k):
    heat = sorted(counts.values(), reverse=True)
    edge = heat[k - 1]
    sure = {x for x in counts if counts[x] > edge}
    maybe = {x for x in counts if counts[x] == edge}
    have, could, left = len(sure & set(sampled)), len(maybe & set(sampled)), k - len(sure)
    return (have + max(0, left - (len(maybe) - could))) / k, (have + min(left, could)) / k
PYTHON

check() { # CLAIM
	python3 - "$@" <<-'PYTHON' || fail "not so: $1"
		import sys
		sys.path.insert(0, ".")
		from reference import *
		out = open("out").read()
		j = json.loads(out) if out.startswith("{") else {}
		assert eval("(" + sys.argv[1] + ")")
	PYTHON
}

all_of_it() { # without a sample, the map is what a count says
	hot 0 --zipf 1.1 --keys 3000 --updates 60000 --seed 3 --emit
	cp out list
	check '2000 < len(count("list")) <= 3000 and len(rows_of("list")) == 60000'
	hot 0 list --sample 100% --p 0.7 -o all.map --table 9 --json
	check 'j["hot_keys"] == principle(count("list"), 0.7) == len(read_map("all.map")["keys"])'
	check 'are_hottest(read_map("all.map")["keys"], count("list"))'
	check 'read_map("all.map")["all"] == 60000 == j["updates"] == j["sampled_updates"]'
	check 'read_map("all.map")["hot"] == sum(count("list")[k] for k in read_map("all.map")["keys"])'
	check 'read_map("all.map")["table"] == 9 and read_map("all.map")["version"] == 1 and j["both_hold"]'
	hot 0 list --sample 1 --knee --json
	check 'j["hot_keys"] == knee(count("list")) and j["rule"] == "knee"'
}

sampled() { # precision is what a reference makes of map and count; a sample is about as good as an ideal one
	hot 0 list --sample 20% --p 0.7 --exact -o part.map --json
	check 'precision(read_map("part.map")["keys"], count("list"), j["all_hot_keys"])[0] - 1e-9 <= j["precision"] <=
		precision(read_map("part.map")["keys"], count("list"), j["all_hot_keys"])[1] + 1e-9'
	check 'j["all_hot_keys"] == principle(count("list"), 0.7) and j["all_keys"] == len(count("list"))'
	check '0.19 < j["sampled_updates"] / j["updates"] < 0.21 and j["updates"] == j["rows"] == 60000'
	check 'abs(j["all_share"] - sum(count("list")[k] for k in read_map("part.map")["keys"]) / 60000) < 1e-6'
	check 'j["precision"] > j["ideal_precision_least"] - 0.03 and abs(j["share"] - j["all_share"]) < 0.02'
	check 'j["ideal_precision_least"] <= j["ideal_precision"] <= j["ideal_precision_most"] < 1'
	hot 0 --zipf 1.1 --keys 3000 --updates 60000 --seed 3 --sample 20% --p 0.7 -o zipf.map --json
	hot 0 list --sample 20% --p 0.7 --seed 3 -o seed.map
	same zipf.map seed.map # what is emitted is what is drawn
	# shellcheck disable=SC2094 # nothing is written to it
	hot 0 - --format list --sample 20% --p 0.7 -o stream.map --json <list
	same part.map stream.map
	hot 0 list --sample 20% --p 0.7 --counters 300 --exact
	says out 'counts at most [0-9]+ too high'
	says out 'take more --counters'
}

packed() {
	local name
	gzip -k list && xz -k list
	for name in list.gz list.xz; do
		hot 0 "$name" --sample 20% --p 0.7 -o "$name.map"
		same part.map "$name.map"
	done
	hot 0 - --format list --sample 20% --p 0.7 -o piped.map <list.gz
	same part.map piped.map
	head -c 1000 list.gz >cut.gz
	hot 1 cut.gz --format list -o cut.map
	says err 'cut.gz: truncated gz'
	[[ ! -e cut.map ]] || fail "a map of half a file"
}

formats() { # keys of other files are those that a reference hashes
	python3 - <<-'PYTHON'
		import random, sys
		sys.path.insert(0, ".")
		from reference import *
		random.seed(5)
		files = {n: open(n, "w") for n in ("clicks.tsv", "clicks.csv", "hashed", "named", "users", "svm", "svm.keys")}
		files["clicks.csv"].write("id,click,hour,site,app\n")
		for i in range(300):
		    numbers = [random.choice(["", "-1", "0", "2", "3", "17", "1382", "65535"]) for _ in range(13)]
		    words = [random.choice(["", "68fd1e64", "%08x" % random.randrange(40)]) for _ in range(26)]
		    files["clicks.tsv"].write("\t".join([str(i % 2)] + numbers + words) + "\n")
		    f = ["I%d=" % j + (str(int(math.log(int(x))**2)) if int(x) > 2 else "S" + x)
		         for j, x in enumerate(numbers, 1) if x]
		    f += ["C%d=" % j + x for j, x in enumerate(words, 1) if x]
		    files["hashed"].write(" ".join(str(fnv(x)) for x in f) + "\n")
		    hour, site, app = "141021%02d" % (i % 24), "s%d" % random.randrange(9), random.choice(["", "a"])
		    files["clicks.csv"].write("%d,0,%s,%s,%s\n" % (i, hour, site, app))
		    f = {fnv(x) % 1024 + 1 for x in ("hour=" + hour[-2:], "site=" + site, "app=" + app)}
		    files["named"].write(" ".join(map(str, f)) + "\n")
		    items = sorted(random.sample(range(1, 60), random.randint(1, 20)))
		    files["users"].write("user%d %s\n" % (i, " ".join(map(str, items))))
		    files["svm"].write("-1 %s\n" % " ".join("%d:0.5" % x for x in items))
		    files["svm.keys"].write(" ".join(map(str, items)) + "\n")
	PYTHON
	hot 0 clicks.tsv --sample 1 --p 1 -o tsv.map --json
	check 'j["format"] == "criteo" and set(read_map("tsv.map")["keys"]) == set(count("hashed"))'
	check 'are_hottest(read_map("tsv.map")["keys"], count("hashed"))'
	hot 0 clicks.csv --bits 10 --sample 1 --p 1 -o csv.map --json
	check 'j["format"] == "avazu" and set(read_map("csv.map")["keys"]) == set(count("named"))'
	check 'are_hottest(read_map("csv.map")["keys"], count("named"))'
	hot 0 users --format list --columns 2- --sample 1 --p 1 -o users.map
	hot 0 svm --sample 1 --p 1 -o svm.map --json
	check 'j["format"] == "libsvm" and are_hottest(read_map("svm.map")["keys"], count("svm.keys"))'
	same users.map svm.map
	hot 1 svm users
	says err '^tally hot: users: its first line does not say what it is: --format$'
}

limits() { # where both conditions cannot hold, it is said
	hot 0 list --p 0.9 --memory 1000 --key-bytes 8 -o few.map --json
	check 'j["hot_keys"] == 12 == j["keys_that_fit"] < j["wanted_keys"] and not j["both_hold"]'
	hot 0 list --p 0.9 --memory 1000 --key-bytes 8
	says out '^# both conditions cannot hold: --p takes [0-9]+ keys, .*; 12 fit$'
	hot 0 list --knee --memory 1K
	says out '^# both conditions cannot hold: the knee takes [0-9]+ keys, .*; 25 fit$'
	hot 0 --zipf 0 --keys 100000 --updates 100000 --p 0.9
	says out '^# both conditions cannot hold: all keys of the sample together have not 90 %'
}

maps() { # versions rise; what is no map, or another table's, is left as it is
	hot 0 list -o m --table 4
	hot 0 list -o m --table 4
	check 'read_map("m")["version"] == 2'
	hot 0 list -o m --table 4 --map-version 77
	check 'read_map("m")["version"] == 77'
	cp m kept
	hot 1 list -o m --table 5
	says err '-o m: the map of table 4, not of table 5; it is left as it is$'
	hot 1 list -o list
	says err '-o list: no map of tally hot; it is left as it is$'
	hot 1 missing -o m --table 4
	hot 1 list -o /no/such/map
	says err '/no/such/map.partial: No such file'
	same m kept
	hot 0 --show m
	says out '^# m: table 4, version 77: '
	check '[int(line.split()[1]) for line in out.splitlines()[1:]] == list(read_map("m")["keys"])'
	hot 0 --show m --json
	check '[int(k) for k in j["keys"]] == list(read_map("m")["keys"]) and j["map_version"] == 77'
	printf x | dd of=m bs=1 seek=60 conv=notrunc 2>/dev/null
	hot 1 --show m
	says err '^tally hot: m: damaged: its checksum does not fit$'
	head -c 60 kept >m
	hot 1 --show m
	says err '^tally hot: m: truncated'
	[[ ! -e m.partial ]] || fail "a partial file is left"
}

refused() { # what is wrong is named, and nothing is left of it
	printf '1 2\n3 four\n' >bad
	hot 1 bad --format list -o bad.map
	says err "^tally hot: bad:2:3: 'four' is no key"
	printf '1 1:1\n1 2:1 2:1\n' >bad
	hot 1 bad -o bad.map
	says err '^tally hot: bad:2:7: the index 2 is there twice$'
	head -3 clicks.tsv >bad
	printf '1\t2\n' >>bad
	hot 1 list bad --format criteo
	says err '^tally hot: list:1:1: 1 fields with tabs'
	hot 1 bad -o bad.map
	says err '^tally hot: bad:4:4: 2 fields, not 40 as in the lines before$'
	head -3 clicks.csv >bad
	echo 1,0 >>bad
	hot 1 bad
	says err '^tally hot: bad:4:4: 2 fields, not 5 as in the lines before$'
	printf 12345 >bad
	hot 1 bad --format u64
	says err '^tally hot: bad: ends inside of a key of 8 bytes, behind 0 whole ones$'
	[[ ! -e bad.map && ! -e bad.map.partial ]] || fail "a map of what is wrong"
	hot 1 missing
	says err '^tally hot: missing: No such file'
	hot 1 - </dev/null
	says err 'which --format is it'
	hot 1 - --format list </dev/null
	says err 'there are no keys in it'
	echo 5 >one
	hot 1 one --sample 0.0001
	says err 'the sample is empty'
	hot 1 svm --columns 2
	says err 'svm: is libsvm, which has no --columns'
	for words in '' '--bits 4' 'list --bits 33' 'list --sample 0' 'list --sample 101%' 'list --p 0' 'list --p half' \
		'list --knee --p 0.5' 'list --keys 5' 'list --emit' 'list --zipf 1' '--zipf nan' '--zipf 9' '--zipf 1 --columns 2' \
		'list --columns 0' 'list --columns 3-2' 'list --columns -2' 'list --format svm' 'list --format libsvm --columns 2' \
		'list --format u64 --bits 4' 'list --table 3' 'list --map-version 3' 'list -o m --table 65536' \
		'list --counters 15' 'list --memory 30' 'list --seed 1 --seed 1' 'list --show m' '--show m --knee' 'list --nothing'; do
		# shellcheck disable=SC2086 # words
		hot 2 $words </dev/null
		[[ -s err && ! -s out ]] || fail "tally hot $words: nothing is said"
	done
}

memory() { # that of the sketch is bounded, and a full count that does not fit says so
	grep -qa -e __asan_init -e __tsan_init "$tally" && return
	(ulimit -v 150000 && seq 1 1000000 | "$tally" hot - --format list --counters 64K >out 2>err) ||
		fail "150 MB are not enough for a bounded sketch"
	says out 'counts'
	(ulimit -v 150000 && seq 1 3000000 | "$tally" hot - --format list --exact >out 2>err) &&
		fail "3 million keys counted in 150 MB"
	says err 'no memory to count more than [0-9]+ keys; without --exact memory is bounded'
}

outputs() {
	if command -v gnuplot >/dev/null; then
		hot 0 list --exact --plot curve.svg
		says curve.svg '</svg>'
		says curve.svg 'all updates'
	else
		echo "SKIP: curves: no gnuplot (scripts/deps.sh test)"
	fi
	hot 1 list --plot curve.gif
	says err 'FILE.svg'
	TALLY_PROGRESS=1 hot 0 --zipf 1.1 --updates 1000000
	says err 'reading  \[.*\] .*%.*M updates'
	hot 0 --help
	says out 'usage: tally hot FILE'
	"$tally" hot --zipf 1 --emit >/dev/full 2>err && fail "a full disk was no error"
	says err 'not all could be written to stdout'
}

# Phases of 50 keys each: what was hot before a pause of many half-lives is not any more.
live() {
	local told=no version
	phase() { # FIRST ROWS
		awk -v first="$1" -v rows="$2" 'BEGIN { for (i = 0; i < rows; i++) print first + (i * 7) % 50 }'
	}
	rm -f told
	# A shell cannot trap what it was started without, as by nohup.
	env --default-signal=HUP bash -c 'trap "echo yes >told; exit" HUP; echo >ready; while sleep 0.05; do :; done' &
	told=$!
	until [[ -e ready ]]; do sleep 0.02; done
	hot 0 - --format list --live -o live.map --sample 1 --every 2 --half-life 0.3 --tell "$told" \
		< <(phase 1 20000 && sleep 3 && phase 1001 2000)
	wait "$told"
	[[ -e told ]] || fail "--tell has told nobody"
	says out 'updates: the .* keys have .*version 1 is written, and told$'
	says out '22000 updates: the .* keys have .*: version [0-9]+ is written'
	"$tally" hot --show live.map >out 2>err
	[[ $(tail -n +2 out | awk '$2 < 1001 || $2 > 1050' | wc -l) == 0 ]] || fail "the map has keys of before"
	# It goes on where the map is.
	version=$(sed -n '1s/.*version \([0-9]*\):.*/\1/p' out)
	hot 0 - --format list --live -o live.map --sample 1 --json --tell 2000000000 < <(phase 1 2000)
	says err 'No such process; the map is there for its next start'
	says out "\"map_version\":$((version + 1)),.*\"written\":true,\"told\":false"
	hot 0 - --format list --live -o live.map --sample 1 --json < <(phase 1 2000)
	says out "\"map_version\":$((version + 1)),.*\"written\":false"
	hot 2 list --live
	says err '--live: needs -o MAP'
	hot 2 list --every 3
	says err '--every: needs --live'
	hot 2 list --live -o live.map --exact
	says err '--exact: cannot go with --live'
	echo nonsense >other.map
	hot 1 - --format list --live -o other.map < <(phase 1 100)
	says err 'other.map.*left as it is'
}

# Told by tally hot, and before, while it still waits for its folder: that must not end it.
served() {
	local ps tries=0
	hot 0 list --sample 100% -o served.map
	mkdir tables
	exec 8<tables
	flock 8
	"$tally-ps" --listen 127.0.0.1:0 --workers 1 --dir tables --table t,dim=1,map=served.map 2>served.log 8<&- &
	ps=$!
	until [[ $(readlink /proc/$ps/exe) == */tally-ps ]] && [[ $(find /proc/$ps/fd -lname "*/tables") ]]; do
		sleep 0.02
	done
	kill -HUP $ps
	flock -u 8
	exec 8<&-
	until grep -q 'is the one that it has' served.log || ((++tries > 500)); do sleep 0.02; done
	says served.log 'ready on'
	says served.log 'version 1 of its map is the one that it has'
	hot 0 - --format list --live -o served.map --sample 1 --tell $ps < <(seq 5001 5050)
	says out 'version 2 is written, and told'
	until grep -q 'version 2' served.log || ((++tries > 1000)); do sleep 0.02; done
	says served.log 'version 2 of its map from now on: 25 hot keys'
	kill $ps
	wait $ps || fail "tally-ps: exit status $?"
}

all_of_it
live
served
sampled
packed
formats
limits
maps
refused
memory
outputs
echo "$failures failures, ${SECONDS} s"
exit $((failures != 0))
