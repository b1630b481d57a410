# SPDX-License-Identifier: Apache-2.0
"""replay.py - reads what tally-search recorded of the shipped code (src/search/record.h), works out again what the rules
of docs/protocol.md say, and ends at the first line that they do not allow, with exit status 1. A line is a word, numbers
and lists of numbers, and texts: one call, its arguments, then its results."""
import collections
import sys

import replay_admission
import replay_exact
import replay_member
import replay_numbers
import replay_pace
import replay_texts
import replay_worker
from replay_numbers import Differs

CALLS = {**replay_numbers.CALLS, **replay_pace.CALLS, **replay_member.CALLS, **replay_admission.CALLS,
         **replay_worker.CALLS, **replay_texts.CALLS, **replay_exact.CALLS, "until": lambda now_ms: None}
TRACE = 12  # lines that are shown before the one that differs


def read(part):
    """A list of numbers, or a text in hexadecimal digits."""
    return bytes.fromhex(part[1:]) if part[:1] == '"' else list(map(int, part.split()))


def main():
    walk, recent = "nothing", collections.deque(maxlen=TRACE)
    for number, line in enumerate(sys.stdin, 1):
        recent.append(line)
        head, *lists = line.split(";")
        word, *numbers = head.split()
        if word == "walk":
            walk = line.strip()
            recent.clear()
            continue
        try:
            if word == "wrong":
                raise Differs(head.strip())
            CALLS[word](*map(int, numbers), *map(read, lists))
        except Differs as differs:
            print(*map(str.rstrip, recent), f"line {number}, {walk}: {differs}", sep="\n")
            return 1
    return 0 if walk != "nothing" else 1


if __name__ == "__main__":
    sys.exit(main())
