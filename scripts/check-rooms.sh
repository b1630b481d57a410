#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check-rooms.sh - fail on an include that src/rooms.txt does not allow. Ours are written with
# quotes, "room/file.h"; include/tally.h is "tally.h" or <tally.h>, tally_kv.h likewise. A folder of core is a room.
cd "$(dirname "$0")/.." || exit 2
find src tools examples bindings include -name '*.[ch]' | sort | xargs grep -n '^#include' /dev/null | awk '
	FNR == NR { # src/rooms.txt
		if (/^#/ || !NF) next
		room = $1; sub(/:$/, "", room)
		ok[room, room] = known[room] = 1
		for (i = 2; i <= NF; i++) ok[room, $i] = 1
		next
	}
	{
		split($0, at, ":"); split(at[1], dir, "/"); room = dir[1] == "src" ? dir[2] : dir[1]
		if (room == "core") room = room "/" dir[3]
		if (/[<"]tally(_kv)?\.h[>"]/) to = top = "tally"
		else if (match($0, /"[^"]*"/)) {
			to = top = substr($0, RSTART + 1, RLENGTH - 2)
			sub(/\/.*/, "", top)
			if (top == "core" && !((room, "core") in ok)) sub(/\/[^\/]*$/, "", to)
			else to = top
		}
		else next # a system header
		if ((room, to) in ok || at[1] ~ /_(test|fuzz)\.[ch]$/ && ("test", top) in ok) next
		printf "%s:%s: %s %s may not include %s: src/rooms.txt\n", at[1], at[2],
			known[room] ? "room" : "unknown room", room, to
		bad = 1
	}
	END { exit bad }' src/rooms.txt - >&2
