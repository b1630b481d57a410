# SPDX-License-Identifier: Apache-2.0
"""past.py - which operation one repeats, and what that tells of its exponents: R-WK-17, R-WK-18."""
import itertools


class Entry:
    """An operation that was called."""

    def __init__(self, number, key, stream, chunks):
        self.number, self.key, self.stream, self.chunks = number, key, stream, chunks  # chunks: 0 if it may not be guessed
        self.repeats = None  # an entry
        self.agreed = {}  # of its chunks: exponents


class Past:
    def __init__(self, turns, reach=2048, rows=512):
        """turns: of each stream, the slots of all shards."""
        self.entries, self.turns, self.reach, self.rows = [], turns, reach, rows

    def put(self, key, stream, chunks, may_be_guessed):
        new = Entry(len(self.entries), key, stream, min(chunks, self.turns[stream]) if may_be_guessed else 0)
        self.entries.append(new)
        new.repeats = self.next_of(new) or self.alike(new)
        return new

    def between(self, old, new):
        """The chunks of a stream's operations that may be guessed, from one to another."""
        return sum(one.chunks for one in self.entries[old.number:new.number] if one.stream == new.stream)

    def is_reached(self, old, new):
        return new.number - self.reach <= old.number < new.number

    def is_kept(self, old, new):
        return self.is_reached(old, new) and self.between(old, new) <= self.rows * self.turns[new.stream]

    def may_repeat(self, old, new):
        if old.key != new.key or not self.is_reached(old, new):
            return False
        if not new.chunks:
            return True
        is_run = all(one.key == new.key for one in self.entries[old.number:new.number])
        return self.is_kept(old, new) and not (is_run and self.between(old, new) < self.turns[new.stream])

    def next_of(self, new):
        last = self.entries[new.number - 1].repeats if new.number else None
        following = self.entries[last.number + 1] if last else None
        return following if following and self.may_repeat(following, new) else None

    def alike(self, new):
        def match(old):
            pairs = itertools.islice(zip(reversed(self.entries[:old.number]), reversed(self.entries[:new.number])), 16)
            return sum(1 for _ in itertools.takewhile(
                lambda pair: pair[0].key == pair[1].key and self.is_reached(pair[0], new), pairs))

        places = [old for old in self.entries[max(0, new.number - self.reach):new.number] if self.may_repeat(old, new)]
        return max(places, key=lambda old: (match(old), old.number), default=None)

    def guess(self, entry, index):
        """An exponent; None: there is nothing to guess from; False: not yet."""
        first = entry.repeats
        if first is None or index >= entry.chunks:
            return None
        second = first.repeats
        if second is None or not self.is_kept(second, entry):
            second = first
        known = [one.agreed.get(index) for one in (first, second)]
        if None in known:
            return False
        return min(max(known) + 1, 254) if max(known) else 0


def fits(guess, own):
    return own == 0 or guess - 4 <= own <= guess
