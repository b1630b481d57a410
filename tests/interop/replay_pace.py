# SPDX-License-Identifier: Apache-2.0
"""replay_pace.py - what is sent again, and when: R-PACE-1 to R-PACE-8, R-PACE-11 and R-LAT-18; and windows that follow the
queue, R-WIN-1 to R-WIN-6. Where a firing may come earlier at
random, this follows what was recorded."""
import bisect
import functools
import math

from replay_numbers import Differs, expect

MS = 1000000
NEVER = 2**64 - 1
SENT_OFTEN = 4  # copies, after which a slot is held
COVER = 3  # later slots whose results show a loss
BURST = 64  # resends of latency mode in an eighth of an RTO


UNIT = 256  # of a window: a packet
TARGET = 2 * MS


class Follow:
    """R-WIN: the window of a bulk pair. Sizes are whole 256ths of a packet, and what is divided is rounded down."""
    base = queue = queue_at = begun = before = vain = hoped = pressed = mends = 0
    is_pressed = is_lossy = is_full = False
    span_begun = span_least = 0

    def __init__(self, most):
        self.most = self.size = most * UNIT
        self.samples = []

    def resize(self, size):
        """R-WIN-1"""
        self.size = min(max(size, min(2 * UNIT, self.most)), self.most)

    def answer(self, now, order, newest, is_full):
        """R-WIN-2: order 0 is of what was sent more than once, and ends no trip."""
        self.is_full |= is_full
        if order <= self.begun:
            return
        self.begun = newest
        if not self.samples:
            return
        self.learn(now, min(self.samples))
        self.judge(now, min(self.samples) - self.base, max(self.samples) - self.base)
        self.samples, self.is_lossy, self.is_full = [], False, False

    def learn(self, now, least):
        if now - self.span_begun >= 10000 * MS:
            if self.span_least:
                self.base = min(self.span_least, self.base + MS // 4)
            self.span_begun, self.span_least = now, 0
        self.span_least = min(self.span_least or least, least)
        self.base = min(self.base or least, least)

    def judge(self, now, queue, longest):
        is_pair = now - self.queue_at <= 1000 * MS + max(self.samples)
        both = min(queue, self.queue) if is_pair else 0
        self.queue, self.queue_at = queue, now
        self.is_pressed = self.is_pressed and now - self.pressed < 10000 * MS
        if self.mends:
            self.mends -= 1
        elif self.is_lossy and longest > TARGET // 2:  # R-WIN-4
            self.mends, self.before = 3, self.before * 7 // 10
            return self.resize(self.size * 7 // 10)
        if both > TARGET and not self.is_pressed:
            return self.give(now, both)
        if queue <= TARGET:
            self.vain = 0
        if self.is_full and (queue <= TARGET or self.is_pressed):  # R-WIN-6
            self.resize(self.size + 135)

    def give(self, now, queue):
        """R-WIN-3, R-WIN-5."""
        if self.hoped and queue <= self.hoped:
            self.vain = 0
        if self.vain == 0:
            self.before = self.size
        if self.vain == 3:
            self.is_pressed, self.pressed, self.vain, self.hoped = True, now, 0, 0
            return self.resize(max(self.size, self.before))
        self.vain += 1
        size = max(self.size * TARGET // queue * 9 // 10, self.size // 2)
        self.hoped = queue * (self.size + size) // 2 // self.size
        self.queue = 0
        self.resize(size)


class Slot:
    attempt_ns = order = number = copies = 0  # of the last attempt; number: 0, no PROBE in this round
    is_suspect = False  # that PROBE was for a gap


class Flight(dict):
    """The slots of a pair that are in flight, in the order in which they came there."""
    asked = left = 0  # when a part of it was asked for, and what of that is still to be


class Shard:
    srtt = rttvar = heard = needed = answered = hello = doubled = 0
    follow = None
    orders = doublings = ring_left = 0
    span_begun = longest = longest_before = 0  # R-PACE-11: in this span, and in the one before

    def __init__(self, number, windows, slots):
        self.number = number  # of the last PROBE
        self.windows = windows
        self.slots = [Slot() for _ in range(slots)]
        self.flights, self.held = (Flight(), Flight()), {}  # express, bulk; in the order in which they came there
        self.windowed = set()
        self.plain = []  # orders of what went out once and has its result

    def lists(self):
        return *self.flights, self.held

    def bare(self):
        """R-PACE-2 without back-off."""
        if not self.srtt:
            return 100 * MS
        return min(max(self.srtt + 4 * self.rttvar, 2 * self.srtt, MS), 2000 * MS)

    def rto(self):
        return min(self.bare() << self.doublings, max(self.bare(), 250 * MS))

    def wait(self, now, took):
        """R-PACE-11: of a bulk pair."""
        if now - self.span_begun >= 1000 * MS:
            self.span_begun, self.longest_before, self.longest = now, self.longest, 0
        self.longest = max(self.longest, took)

    def sample(self, rtt):
        if self.srtt:
            self.rttvar += (abs(self.srtt - rtt) - self.rttvar) // 4
            self.srtt += (rtt - self.srtt) // 8
        else:
            self.srtt, self.rttvar = rtt, rtt // 2
        self.srtt = max(self.srtt, 1)  # 0: none yet
        self.doublings = 0

    def shorten(self, took):
        """Whoever was last, the round trip is shorter than that."""
        self.doublings = next((n for n in range(self.doublings) if self.bare() << n > took),
                              self.doublings)

    def attempt(self, slot, now):
        self.orders += 1
        slot.attempt_ns, slot.order = now, self.orders

    def gap(self):
        """R-PACE-4."""
        return self.srtt + min(self.srtt, MS)

    def is_overtaken(self, slot):
        return self.srtt and len(self.plain) - bisect.bisect(self.plain, slot.order) >= 3

    def is_gap(self, slot, now):
        return self.is_overtaken(slot) and now >= slot.attempt_ns + self.gap()


class Pace:
    ring_ns, interval, firings, samples, punctual = NEVER, 0, 0, 0, 0
    burst_ns = burst = 0
    is_following = False

    def __init__(self, shards, slots, is_latency, base, pools, numbers):
        self.is_latency, self.base, self.pools = is_latency, slots if is_latency else base, pools
        self.shards = [Shard(number, list(pools), slots) for number in numbers[:shards]]

    # -- what comes and goes --

    def first_interval(self):
        return min(max(4 * shard.bare() for shard in self.shards if shard.held), 250 * MS)

    def hold(self, shard, index, now):
        for waits in shard.lists():
            waits.pop(index, None)
        shard.held[index] = True
        if self.ring_ns == NEVER:
            self.interval = self.first_interval()
            self.ring_ns = now + self.interval

    def sent(self, now, at, index, is_copy=False):
        shard, slot = self.shards[at], self.shards[at].slots[index]
        slot.is_suspect = False
        if not any(shard.lists()):
            shard.heard = now
        if is_copy:
            slot.copies += 1
        else:
            slot.copies = slot.number = 0
        shard.attempt(slot, now)
        shard.windowed.add(index)
        for waits in shard.lists():
            waits.pop(index, None)
        shard.flights[index >= self.base][index] = True
        if slot.copies >= SENT_OFTEN:
            self.hold(shard, index, now)

    def follow(self, now):
        self.is_following = True
        for shard in self.shards:
            shard.follow = Follow(shard.windows[1])

    def followed(self, now, shard, index, is_last):
        """What the window of a bulk pair learns from a RESULT: before its slot leaves the window."""
        slot, window = shard.slots[index], shard.follow
        is_once = slot.copies == 0 and slot.number == 0
        if not window or index < self.base:
            return
        if is_once and is_last:
            window.samples.append(max(now - slot.attempt_ns, 1))
        window.is_lossy |= slot.is_suspect and index not in shard.held and now - slot.attempt_ns >= window.base
        is_full = self.used(shard, True) >= shard.windows[1] - shard.windows[1] // 4
        window.answer(now, slot.order if is_once else 0, shard.orders, is_full)
        shard.windows[1] = window.size // UNIT

    def result(self, now, at, index, is_last):
        shard, slot = self.shards[at], self.shards[at].slots[index]
        shard.heard = now
        self.followed(now, shard, index, is_last)
        if slot.copies == 0 and slot.number == 0:
            if is_last:
                self.sample(now, at, now - slot.attempt_ns)
            else:
                shard.shorten(now - slot.attempt_ns)
            bisect.insort(shard.plain, slot.order)
            if index >= self.base:
                shard.wait(now, now - slot.attempt_ns)
        shard.answered = now
        for waits in shard.lists():
            waits.pop(index, None)
        shard.windowed.discard(index)
        if not any(shard.held for shard in self.shards):
            self.ring_ns = NEVER
        else:
            self.interval = self.first_interval()
            self.ring_ns = min(self.ring_ns, now + self.interval)

    def asked(self, now, at, index, echo, is_held):
        """HELD; or NEED, and the copy that it asks for."""
        shard, slot = self.shards[at], self.shards[at].slots[index]
        shard.heard = now
        if slot.copies == 1 if self.is_latency else echo and echo == slot.number:
            self.sample(now, at, now - slot.attempt_ns)
            if not is_held and index >= self.base and shard.follow:
                shard.follow.is_lossy = True  # R-WIN-4
        if not is_held:
            shard.needed = now
            self.sent(now, at, index, True)
        elif index not in shard.held:
            shard.windowed.discard(index)
            self.hold(shard, index, now)

    def sample(self, now, at, rtt):
        self.shards[at].heard = now
        self.shards[at].sample(rtt)
        self.samples += 1

    def window(self, now, at, stream, size):
        self.shards[at].windows[stream] = min(size, self.pools[stream])
        if stream:
            self.shards[at].follow = None

    def heard(self, now, at):
        self.shards[at].heard = now

    # -- what is sent again --

    def is_doubtful(self, shard, slot):
        """R-PACE-3: nothing says that something was lost."""
        return not self.is_latency and shard.needed <= slot.attempt_ns

    def time_out(self, shard, flight):
        """R-PACE-11."""
        is_bulk = flight is shard.flights[1]
        if not is_bulk or (len(flight) <= COVER and (self.has_room(shard, True) or shard.windows[1] == 1)):
            return shard.rto()
        return max(shard.rto(), min(2 * max(shard.longest, shard.longest_before), 250 * MS))

    def since(self, shard, slot):
        """R-PACE-3: when the slot's time began."""
        return slot.attempt_ns if self.is_latency else max(slot.attempt_ns, shard.answered)

    def probe(self, at, index, now, probes):
        shard, slot = self.shards[at], self.shards[at].slots[index]
        waits = next(waits for waits in shard.lists() if index in waits)
        if waits is shard.held or slot.is_suspect or not self.is_doubtful(shard, slot):
            shard.windowed.discard(index)
        shard.attempt(slot, now)
        shard.number = slot.number = (shard.number + 1) % 2**32 or 1
        waits[index] = waits.pop(index)
        probes.append((at, index, 0 if self.is_latency else slot.number))

    def has_share(self, flight, now, limit):
        """Of what is in doubt."""
        if not flight.left:
            if flight.asked and now < flight.asked + limit:
                return False
            flight.asked, flight.left = now, max(8, -(-len(flight) // 16))
        flight.left -= 1
        return True

    def poll_flight(self, at, flight, now, probes, most):
        shard, limit = self.shards[at], self.time_out(self.shards[at], flight)
        while len(probes) < most and flight:
            index = next(iter(flight))
            slot = shard.slots[index]
            is_gap = shard.is_gap(slot, now)
            if not is_gap:
                if now < self.since(shard, slot) + limit:
                    flight.left = 0
                    return
                if self.is_doubtful(shard, slot) and not self.has_share(flight, now, limit):
                    return
                if shard.doublings < 16 and now >= shard.doubled + shard.rto():
                    shard.doublings += 1
                    shard.doubled = now
            slot.is_suspect = bool(is_gap)
            self.probe(at, index, now, probes)

    def poll_held(self, at, now, probes, most):
        shard = self.shards[at]
        while len(probes) < most and shard.held:
            index = next(iter(shard.held))
            slot = shard.slots[index]
            if now < slot.attempt_ns + shard.bare():
                shard.ring_left = 0
            if not shard.is_gap(slot, now):
                if not shard.ring_left:
                    return
                shard.ring_left -= 1
            self.probe(at, index, now, probes)

    def ring_part(self, count):
        part = max(-(-count // 16), self.interval // (4 * MS))
        if count < 2:
            return count
        while part < count and math.gcd(part, count) > 1:
            part += 1
        return min(part, count - 1)

    def ring(self, now, ring_ns):
        """R-PACE-7: the timer fires, if it is time. ring_ns: the next time, as recorded."""
        if now < self.ring_ns:
            return
        if not any(shard.held for shard in self.shards):
            self.ring_ns = NEVER
            return
        self.firings += 1
        for shard in self.shards:
            shard.ring_left = self.ring_part(len(shard.held))
        most = 64 if any(len(shard.held) > 16 for shard in self.shards) else 250
        self.interval = min(2 * self.interval, most * MS)
        earlier = now + self.interval - ring_ns
        if not 0 <= earlier <= self.interval // 4:
            raise Differs(f"R-PACE-7: the ring fires {earlier} ns earlier than after {self.interval} ns")
        self.ring_ns = ring_ns
        self.punctual = 0 if earlier else self.punctual + 1
        expect("R-PACE-7: no firing of 8 is earlier at random", self.punctual < 8, True)

    def poll(self, now, most, ring_ns, found):
        part = self.shards[0].rto() // 8
        if self.is_latency and now >= self.burst_ns + part:
            self.burst_ns, self.burst = now, 0
        if self.is_latency:
            most = min(most, BURST - self.burst)
        probes, count = [], len(self.shards)
        self.ring(now, ring_ns)
        for turn in range(count):
            at = (self.firings + turn) % count
            for flight in self.shards[at].flights:
                self.poll_flight(at, flight, now, probes, most)
            self.poll_held(at, now, probes, most)
        expect("R-PACE-1, R-PACE-3, R-PACE-7: shard, slot and number of PROBEs",
               list(zip(*[iter(found)] * 3)), probes)
        if self.is_latency:
            self.burst += len(probes)
            for _, index, _ in probes:
                self.shards[0].slots[index].copies += 1

    def hello(self, now, at, found):
        shard = self.shards[at]
        is_due = bool(any(shard.lists()) and now >= shard.heard + 3 * shard.bare() and
                      now >= shard.hello + 250 * MS)
        if is_due:
            shard.hello = now
        expect("R-PACE-8: whether HELLO is said again", bool(found), is_due)

    # -- what it says --

    def shard_next(self, shard):
        due = [NEVER]
        for flight in shard.flights:
            for index in flight:
                slot, limit = shard.slots[index], self.time_out(shard, flight)
                due.append(self.since(shard, slot) + limit)
                if self.is_doubtful(shard, slot) and flight.asked and not flight.left:
                    due[-1] = max(due[-1], flight.asked + limit)
                break
        for waits in shard.lists():
            for index in waits:
                slot = shard.slots[index]
                if shard.is_overtaken(slot):
                    due.append(slot.attempt_ns + shard.gap())
                break
        return min(due)

    def next(self, now):
        due = min(self.ring_ns, *map(self.shard_next, self.shards))
        due = max(due, now)
        if self.is_latency and self.burst >= BURST and due != NEVER:
            due = max(self.burst_ns + self.shards[0].rto() // 8, now)
        return due

    def used(self, shard, is_bulk):
        return sum((index >= self.base) == is_bulk for index in shard.windowed)

    def has_room(self, shard, is_bulk):
        return int(self.used(shard, is_bulk) < shard.windows[is_bulk])

    def look(self, now, found):
        expect("R-PACE-2 to R-PACE-7: when it wakes up, and samples", found[:2],
               [self.next(now), self.samples])
        for at, shard in enumerate(self.shards):
            wanted = [shard.rto(), shard.srtt]
            if not self.is_latency:
                wanted += [self.has_room(shard, False), self.has_room(shard, True)]
            if self.is_following:
                wanted.append(shard.windows[1])
            expect(f"R-PACE-1, R-PACE-2, R-PACE-5, R-WIN-6: shard {at}, RTO, SRTT, room in its windows, bulk window",
                   found[2 + len(wanted) * at:][:len(wanted)], wanted)


class Walk:
    pace = None


def begin(*arguments):
    Walk.pace = Pace(*arguments)


def event(name, *arguments):
    getattr(Walk.pace, name)(*arguments)


EVENTS = ("follow", "sent", "waits", "result", "asked", "sample", "window", "heard", "poll", "hello", "look")
CALLS = {"pace": begin, **{name: functools.partial(event, name) for name in EVENTS}}
