# SPDX-License-Identifier: Apache-2.0
"""replay_texts.py - what texts for people look like (src/core/shared/text.h), and sets of ranks."""
import re

from replay_member import tidy
from replay_numbers import expect
from replay_round import runs

RANKS = 256


def added(calls, small, number, size, found, part, text):
    whole = b"".join(b"<%s> is %u of %u%%, %s" % (part, small >> i, number, part) for i in range(calls))
    wanted = tidy(whole, size - 1)
    expect("a text", text, wanted)
    expect("a text is empty at first, in its buffer, and as long as it says", found, [True, True, len(wanted)])


def copied(size, is_untouched, whole, copy):
    expect("a copy", copy, tidy(whole, size - 1).ljust(size, b"\0"))
    expect("a copy is in its buffer", is_untouched, True)


def cleaned(text, found):
    """A control character of two bytes becomes two."""
    wanted = re.sub("[\x00-\x1f\x7f-\x9f]", lambda match: "?" * len(match[0].encode()), text.decode())
    expect("a clean text", found, wanted.encode())


def ranks(changes, found, text):
    members = set()
    for rank, is_put, is_in in zip(*[iter(changes)] * 3):
        (members.add if is_put and rank < RANKS else members.discard)(rank)
        expect(f"whether rank {rank} is in", is_in, rank in members)
    expect("how many ranks, and which", found, [len(members), *sorted(members)])
    expect("ranks in a text", text.decode(), runs(sorted(members)) if members else "")


CALLS = {"text": added, "copy": copied, "clean": cleaned, "ranks": ranks}
