# SPDX-License-Identifier: Apache-2.0
"""past.py - which operation one repeats, and what that tells of its exponents: R-WK-17, R-WK-18."""
import itertools


class Entry:
    """An operation that may be guessed."""

    def __init__(self, number, key):
        self.number, self.key = number, key
        self.repeats = None  # an entry
        self.agreed = {}  # of its chunks: exponents


class Past:
    def __init__(self, reach=1024, chunks=1024):
        self.entries, self.reach, self.chunks = [], reach, chunks

    def put(self, key):
        new = Entry(len(self.entries), key)
        reached = self.entries[-self.reach:]
        new.repeats = self.next_of(reached, key) or self.alike(reached, key)
        self.entries.append(new)
        return new

    def next_of(self, reached, key):
        last = reached[-1].repeats if reached else None
        following = self.entries[last.number + 1] if last else None
        return following if following in reached and following.key == key else None

    def alike(self, reached, key):
        before = [one.key for one in reversed(reached)][:16]

        def match(place):
            pairs = zip(before, (one.key for one in reversed(reached[:place])))
            return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))

        places = [i for i, one in enumerate(reached) if one.key == key]
        return reached[max(places, key=lambda i: (match(i), i))] if places else None

    def guess(self, entry, index):
        """An exponent; None: there is nothing to guess from; False: not yet."""
        first = entry.repeats
        if first is None or index >= self.chunks:
            return None
        second = first.repeats
        if second is None or second.number < entry.number - self.reach:
            second = first
        known = [one.agreed.get(index) for one in (first, second)]
        if None in known:
            return False
        return min(max(known) + 1, 254) if max(known) else 0


def fits(guess, own):
    return own == 0 or guess - 3 <= own <= guess
