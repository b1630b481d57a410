# SPDX-License-Identifier: Apache-2.0
"""replay_worker.py - what a worker of dense mode sends and stores: R-WK-1 to R-WK-11, R-WK-13 to R-WK-18, R-MAP-2, R-MAP-3, R-MAP-5, R-MAP-8."""
import functools

import packet as wire
from past import Past, fits
from replay_numbers import expect

EXPRESS, BULK = range(2)
EXPRESS_CHUNKS, EXPRESS_SLOTS = 64, 4  # R-MAP-2; of so few slots
KEPT = 4  # operations of a stream
REACH, ROWS = 32, 1  # R-WK-17: so few, not 2,048 and 512
AHEAD_UNKNOWN, AHEAD_ZERO, AHEAD_SCAN = range(3)
DATA_KINDS = wire.DATA, wire.GUESS
SHORT, MAX, TAKE = 1, 2, 3  # lane operations: MAX and TAKE have no DETAIL
ACTIONS = ("build store resend probe is_accepted is_held is_asked is_op_done is_protocol_error is_amended_later is_bare is_joined is_again "
           "joined_by slot lanes chunk_cookie chunk_first chunk_elements ahead_cookie ahead_first ahead_elements look "
           "stored_cookie stored_first stored_elements stored_round stored_lanes build_scale stored_scale").split()
HEADER = "type flags job generation seq slot child exponent lanes tag".split()
ALWAYS = (("R-WK-3, R-WK-6", "is_accepted is_protocol_error"), ("R-WK-4, R-WK-5", "is_held is_asked resend"),
          ("R-WK-1, R-WK-15, R-WK-18", "build probe lanes is_again"),
          ("R-WK-10", "store is_amended_later is_bare is_joined joined_by is_op_done stored_round stored_lanes stored_cookie stored_first stored_elements "
                      "stored_scale"))


class Slot:
    kind = tag = lanes = sent = scale = 0
    governing = wire.UNKNOWN
    op = None
    is_waiting = is_probed = is_resent = is_bare = is_kept = False

    def __init__(self, seq):
        self.seq = seq


def full_of(lanes, together, each):
    """The elements of a full packet."""
    return lanes // each * together


def turn(index, chunks, parts, run):
    """R-MAP-8: whose elements chunk `index` has."""
    count, (group, rest) = chunks // run, divmod(index, run)
    if group >= count:
        return index
    turn, part = divmod(group, parts)
    before = sum(count // parts + (p < count % parts) for p in range(part))
    return (before + turn) * run + rest


class Operation:
    def __init__(self, stream, lanes, numbers, parts, wanted, past=None):
        self.mine, self.parts, *self.ends = parts
        self.wanted = wanted  # elements [0, 1), by nobody else if 2; or all
        self.hash, self.count, self.cookie, self.lane_op, self.is_scaled, key, is_guessed, *shape = numbers
        self.done, self.shape, self.run = 0, shape, stream.run
        self.full = full_of(lanes, *shape)
        self.chunks = max(1, -(-self.count // self.full))  # R-MAP-5
        self.entry = past.put(key, stream.which, self.chunks, is_guessed) if past else None

    def told(self, chunk):
        """Cookie, first element and how many elements."""
        index = chunk - self.first
        if self.parts:
            index = turn(index, self.chunks, self.parts, self.run)
        first = index * self.full
        return self.cookie, first, min(self.full, self.count - first)

    def way_of(self, first, elements):
        """R-WK-13: the lane operation of a chunk's DATA round, and whether this worker sends lanes."""
        if not self.ends:
            return self.lane_op, True
        owner = sum(end <= first for end in self.ends) if elements else len(self.ends) - 1
        if self.ends[owner] < first + elements:
            return SHORT, True
        return TAKE, owner == self.mine

    def is_bare(self, kind, first, elements):
        """R-WK-14: has this worker the lanes of a chunk, or does it want none of its elements?"""
        if kind == wire.EXPONENT or not elements:
            return False
        if kind in DATA_KINDS and self.ends and self.way_of(first, elements) == (TAKE, True):
            return True
        return bool(self.wanted) and (first >= self.wanted[1] or first + elements <= self.wanted[0])

    def is_kept(self, kind, first, elements):
        """R-WK-15: is this the only worker that wants the elements, and has it lanes of them?"""
        low, high, is_alone = self.wanted or (0, 0, False)
        return bool(is_alone and kind in DATA_KINDS and elements and low <= first and first + elements <= high and
                    self.way_of(first, elements)[1])

    def lanes_of(self, elements):
        together, lanes = self.shape
        return -(-(-(-elements // together) * lanes) // 4) * 4


class Stream:
    def __init__(self, which, pool, base, run):
        self.which, self.pool, self.base, self.run = which, pool, base, run
        self.ops, self.chunks = [], 0  # of those that are kept; submitted ever
        self.called = None  # and not submitted


class Shard:
    def __init__(self, generation, job, child, *seqs):
        self.generation, self.job, self.child = generation, job, child
        self.slots = [Slot(seq) for seq in seqs]
        self.next = [0, 0]


class Worker:
    def __init__(self, slots, run, lanes, *shards):
        self.lanes, self.shards = lanes, [Shard(*shard) for shard in shards]
        self.streams = [Stream(EXPRESS, EXPRESS_SLOTS, 0, 1),
                        Stream(BULK, (slots - EXPRESS_SLOTS) // run * run, EXPRESS_SLOTS, run)]
        self.past = Past([len(shards) * stream.pool for stream in self.streams], REACH, ROWS)

    # -- where chunks are --

    def chunk_at(self, shard, which, k):
        """R-MAP-3."""
        run = self.streams[which].run
        return (k // run * len(self.shards) + shard) * run + k % run

    def slot_of(self, which, k):
        return self.streams[which].base + k % self.streams[which].pool

    def op_of(self, which, chunk):
        return next((op for op in self.streams[which].ops if 0 <= chunk - op.first < op.chunks), None)

    def may_start(self, shard, which):
        k = self.shards[shard].next[which]
        chunk, slot = self.chunk_at(shard, which, k), self.shards[shard].slots[self.slot_of(which, k)]
        if chunk >= self.streams[which].chunks or slot.is_waiting:
            return False
        return self.first_guess(which, chunk, slot) is not False

    def first_guess(self, which, chunk, slot):
        """R-WK-8, R-WK-18"""
        op = self.op_of(which, chunk)
        if not op.entry or slot.governing != wire.UNKNOWN:
            return None
        return self.past.guess(op.entry, chunk - op.first)

    # -- what happens --

    def late(self, which, *numbers):
        """An operation is under way, and all before it is complete."""
        *numbers, parts, wanted, (first, before, k) = numbers
        self.streams[which].chunks = first
        self.take(which, Operation(self.streams[which], self.lanes, numbers, parts, wanted))
        self.streams[which].ops[0].done = before
        for shard in self.shards:
            shard.next[which] = k

    def take(self, which, operation):
        stream = self.streams[which]
        operation.first = stream.chunks
        stream.ops.append(operation)
        stream.chunks += operation.chunks

    def call(self, which, *numbers):
        *numbers, parts, wanted = numbers
        self.streams[which].called = Operation(self.streams[which], self.lanes, numbers, parts, wanted, self.past)

    def submit(self, which, *found):
        self.take(which, self.streams[which].called)
        self.compare({}, *found)

    def start(self, at, which, *found):
        shard = self.shards[at]
        k = shard.next[which]
        index = self.slot_of(which, k)
        slot = shard.slots[index]
        chunk = self.chunk_at(at, which, k)
        expect("R-WK-7: a chunk may start", self.may_start(at, which), True)
        slot.which, slot.k, slot.chunk, slot.op = which, k, chunk, self.op_of(which, chunk)
        shard.next[which] += 1
        is_agreed = not slot.op.is_scaled or slot.governing != wire.UNKNOWN  # R-WK-8
        kind, guess, want = wire.DATA if is_agreed else wire.EXPONENT, self.first_guess(which, chunk, slot), {"slot": index}
        if guess is not None:
            kind, slot.scale = wire.GUESS, guess
        self.build(at, index, kind, want)
        self.compare(want, *found)

    def build(self, at, index, kind, want):
        shard, slot = self.shards[at], self.shards[at].slots[index]
        which, op = slot.which, slot.op
        ahead = slot.chunk
        if kind != wire.EXPONENT:  # R-WK-9: the one that is next in this slot
            ahead = self.chunk_at(at, which, slot.k + self.streams[which].pool)
        ahead_op = self.op_of(which, ahead)
        want["look"] = (AHEAD_UNKNOWN if not ahead_op else AHEAD_SCAN if ahead_op.is_scaled else AHEAD_ZERO)
        want["chunk_cookie"], want["chunk_first"], want["chunk_elements"] = told = op.told(slot.chunk)
        if want["look"] == AHEAD_SCAN:
            want["ahead_cookie"], want["ahead_first"], want["ahead_elements"] = ahead_op.told(ahead)
        if kind == wire.DATA and op.is_scaled:
            slot.scale = slot.governing
        slot.seq = slot.seq + 1 & wire.MASK32
        slot.is_waiting, slot.is_probed, slot.is_resent = True, False, False
        lane_op, has_lanes = op.way_of(*told[1:]) if kind == wire.DATA else (0, True)
        slot.kind = kind | lane_op << 2
        slot.lanes = 0 if kind == wire.EXPONENT else op.lanes_of(told[2])
        slot.tag = wire.tag_of(op.hash, slot.chunk - op.first)
        if kind == wire.GUESS:
            slot.tag ^= slot.scale
        slot.sent, self.built = slot.lanes, slot
        slot.is_bare, slot.is_kept = op.is_bare(kind, *told[1:]), op.is_kept(kind, *told[1:])
        want.update(build=True, build_scale=slot.scale, lanes=slot.lanes * has_lanes, header={
            "type": wire.UPDATE, "flags": slot.kind | wire.BARE * slot.is_bare, "tag": slot.tag,
            "lanes": slot.lanes * (has_lanes and not slot.is_kept), **self.addressed(shard, slot, index)})

    @staticmethod
    def addressed(shard, slot, index):
        return {"job": shard.job, "generation": shard.generation, "seq": slot.seq, "slot": index,
                "child": shard.child}

    def comes(self, at, packet, *found):
        shard, packet, want = self.shards[at], dict(zip(HEADER, packet)), {}
        slot = shard.slots[packet["slot"]] if packet["slot"] < len(shard.slots) else None
        if (slot and slot.is_waiting and (packet["job"], packet["generation"], packet["seq"]) ==
                (shard.job, shard.generation, slot.seq)):
            want["slot"] = packet["slot"]
            if packet["type"] == wire.HELD:  # R-WK-4
                want["is_held"] = True
            elif packet["type"] == wire.NEED:  # R-WK-5
                is_hint = packet["flags"] & wire.HINT
                want["is_asked"] = True
                want["resend"] = bool(slot.is_probed or (is_hint and not slot.is_resent))
                slot.is_resent |= want["resend"]
                slot.is_probed &= not want["resend"]
            elif packet["type"] == wire.RESULT:
                self.result(at, slot, packet, want)
        self.compare(want, *found)

    def result(self, at, slot, packet, want):
        kind, op = slot.kind & 3, slot.op
        lanes = 0 if slot.is_bare and (slot.is_kept or not packet["lanes"]) else slot.lanes
        if lanes and slot.kind == SHORT << 2 and max(4, slot.sent) <= packet["lanes"] <= lanes:  # R-WK-16
            lanes = packet["lanes"]
        if ((packet["lanes"], packet["tag"], packet["flags"] & wire.IDENTITY) != (lanes, slot.tag, slot.kind) or
                (kind == wire.EXPONENT and packet["exponent"] == wire.UNKNOWN)):
            want["is_protocol_error"] = True  # R-WK-6
            return
        want["is_accepted"] = True
        slot.governing = packet["exponent"]
        if kind == wire.GUESS:
            own, slot.governing = packet["exponent"] >> 8, packet["exponent"] & 255
            slot.governing = wire.UNKNOWN if slot.governing == 255 else slot.governing
            want["is_again"] = not fits(slot.scale, own)
        if want.get("is_again"):
            slot.governing = own
        if kind == wire.EXPONENT or want.get("is_again"):
            self.build(at, packet["slot"], wire.DATA, want)
            return
        if kind in DATA_KINDS and op.entry:
            op.entry.agreed[slot.chunk - op.first] = min(own if kind == wire.GUESS else slot.scale, 254)
        want.update(store=True, stored_round=kind, stored_scale=slot.scale, is_bare=not lanes and slot.lanes > 0,
                    is_joined=slot.is_kept and lanes > 0, joined_by=slot.kind >> 2, stored_lanes=slot.lanes)
        want["stored_cookie"], want["stored_first"], want["stored_elements"] = op.told(slot.chunk)
        if kind in DATA_KINDS and slot.kind >> 2 < MAX and packet["flags"] & wire.STICKY:  # R-WK-10
            want["is_amended_later"] = True
            self.build(at, packet["slot"], wire.DETAIL, want)
            return
        slot.is_waiting = False
        op.done += 1
        want["is_op_done"] = op.done == op.chunks
        ops = self.streams[slot.which].ops
        while ops and ops[0].done == ops[0].chunks:  # R-WK-11
            ops.pop(0)

    def probe(self, at, index, attempt, *found):
        shard, slot = self.shards[at], self.shards[at].slots[index]
        expect("R-WK-5: a slot waits", slot.is_waiting, True)
        slot.is_probed = True
        self.compare({"probe": True, "slot": index, "header": {
            "type": wire.PROBE, "flags": wire.BARE * slot.is_bare, "tag": attempt, **self.addressed(shard, slot, index)}}, *found)

    # -- what it did --

    def compare(self, want, actions, header, trim, look):
        found = dict(zip(ACTIONS, actions))
        named = ALWAYS
        if want.get("build"):
            named += ("R-WK-9", "chunk_cookie chunk_first chunk_elements look ahead_cookie ahead_first ahead_elements"),
            if want["header"]["flags"] != wire.EXPONENT:
                named += ("R-WK-8", "build_scale"),
        if any(found[name] for name in ("build", "resend", "probe", "is_accepted")):
            named += ("R-WK-7", "slot"),
        for rule, names in named:
            expect(f"{rule}: {names}", [found[name] for name in names.split()],
                   [want.get(name, 0) for name in names.split()])
        expect("R-WK-1: " + " ".join(HEADER), header, [want.get("header", {}).get(name, 0) for name in HEADER])
        self.trims(want, *trim)
        self.look(*look)

    def trims(self, want, last, found):
        """R-WK-16: zeros behind the last lane that is not 0 stay here."""
        lanes, flags = (want["header"][name] if want.get("build") else 0 for name in ("lanes", "flags"))
        is_short = flags & wire.IDENTITY == SHORT << 2
        expect("R-WK-16: lanes that go out", found, max(4, -(-last // 4) * 4) if is_short and lanes else lanes)
        if is_short:
            self.built.sent = found

    def look(self, count, together, each, which, *found):
        express = EXPRESS_CHUNKS * full_of(self.lanes, together, each)
        expect("R-MAP-2: the stream of so many elements", which, EXPRESS if count <= express else BULK)
        expect("R-WK-11: room for an operation", found[:2], tuple(len(stream.ops) < KEPT for stream in self.streams))
        wanted = []
        for at, shard in enumerate(self.shards):
            for pair in (EXPRESS, BULK):
                may = self.may_start(at, pair)
                wanted += [may, self.slot_of(pair, shard.next[pair]) if may else 0]
        expect("R-WK-7, R-MAP-3: what may start, and where", list(found[2:]), wanted)


class Walk:
    worker = None


def begin(*arguments):
    Walk.worker = Worker(*arguments)


def event(name, *arguments):
    getattr(Walk.worker, name)(*arguments)


EVENTS = ("late", "call", "submit", "start", "comes", "probe")
CALLS = {"worker": begin, **{name: functools.partial(event, name) for name in EVENTS}}
