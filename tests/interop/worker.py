# SPDX-License-Identifier: Apache-2.0
"""worker.py - a worker of tally, written from docs/protocol.md alone: the document, executable.

Dense mode, allreduce (sum, avg) of int32 and float32, at one aggregator with any number of shards.
Made to be read beside the document, whose rules it cites, and not to be fast: one thread, and
whoever waits turns the loop that serves control, packets and timers.
"""
import array
import bisect
import collections
import json
import math
import os
import random
import select
import socket
import struct
import time

from lanes import ADD_LANES, SHORT_LANES, Lanes
import packet as wire
import quant
from past import Past, fits
from quant import FLOAT32, INT32

SUM, AVG, ALLREDUCE = 0, 4, 0  # R-MAP-6
EXPRESS_CHUNKS, EXPRESS, BULK = 64, 0, 1  # R-MAP-2
now = time.monotonic


class Failed(Exception):
    """The communicator is over: cause, rank and text of R-CT-7."""

    def __init__(self, cause, text, rank=0xFFFF):
        super().__init__(f"{cause}: {text}")
        self.cause, self.rank, self.text = cause, rank, text


class Operation:
    def __init__(self, number, values, dtype, op, name, lanes, size):
        self.number, self.dtype, self.op, self.name, self.lanes = number, dtype, op, name, lanes
        self.source = array.array("i" if dtype == INT32 else "f", values)
        self.packed = INT32 if size == 1 else dtype  # R-NUM-8
        if self.packed != dtype:
            self.source = array.array("i", self.source.tobytes())
        self.result = array.array(self.source.typecode, self.source)
        self.count, self.size = len(self.source), size
        self.way = Lanes(dtype, op, self.count, size, lanes)
        self.each = self.way.shape[1] if self.way.is_exact else 1  # lanes of an element: R-NUM-13
        self.chunks = self.left = max(1, math.ceil(self.count / lanes))  # R-MAP-5
        self.stream = EXPRESS if self.chunks <= EXPRESS_CHUNKS else BULK
        self.is_scaled = self.way.is_scaled and self.count > 0  # R-WK-8, R-WK-11
        self.hash, self.key = (wire.descriptor_hash(n, ALLREDUCE, dtype, op, self.count, 0, name)  # R-MAP-6, R-WK-17
                               for n in (number, self.stream))
        self.submitted_at = now()

    def values(self):
        return self.result if self.packed == self.dtype else array.array("f", self.result.tobytes())

    def part(self, i):
        return self.source[i * self.lanes:(i + 1) * self.lanes]

    def exponent(self, i):
        return quant.exponent_of(self.part(i)) if self.is_scaled else 0  # R-WK-9

    def data(self, i, exponent):
        """Lanes and sticky flags of a DATA round."""
        if self.way.is_exact:
            return self.way.pack(self.part(i).tobytes(), 0)
        return quant.data(self.part(i), self.packed, exponent, self.size)

    def detail(self, i):
        found = quant.detail(self.part(i), self.packed)
        return found + [0] * (len(found) * (self.each - 1))  # R-NUM-13: in the first row

    def unpack(self, lanes, exponent, is_avg):
        if self.way.is_exact:
            data = self.way.data(self.way.unpack(lanes[:self.count * self.each], 0))
            return struct.unpack(f"<{self.count}f", data)
        return quant.unpack(lanes, self.packed, exponent, self.size, is_avg)

    def describe(self):
        """For OPINFO."""
        return dict(number=self.number, kind=ALLREDUCE, type=self.dtype, op=self.op, root=0,
                    count=self.count, stream=self.stream, name=self.name)


class Slot:
    def __init__(self, pair, index):
        self.pair, self.index = pair, index
        self.seq, self.exponent = 0, wire.UNKNOWN  # R-WK-12. UNKNOWN is "no result yet", too
        self.operation = self.i = self.k = None  # the chunk that has the slot
        self.in_window = False

    def compose(self, kind):
        """The slot's next round, R-WK-1: once, and what was sent once is what is sent again."""
        operation, pool = self.operation, self.pair.pool
        body, sticky = b"", 0
        if kind == wire.EXPONENT:
            exponent = operation.exponent(self.i)
        else:  # R-WK-9: about the slot's next chunk
            other, i = self.pair.chunks.get(self.k + pool, (None, 0))
            exponent = other.exponent(i) if other else wire.UNKNOWN
        if kind == wire.GUESS:  # R-WIRE-10
            exponent = operation.exponent(self.i) << 8 | min(exponent, 255)
        if kind == wire.DATA:
            self.scale = self.exponent
        if kind in (wire.DATA, wire.GUESS):
            lanes, sticky = operation.data(self.i, self.scale)
            body = wire.lanes_bytes(lanes)
        elif kind == wire.DETAIL:
            body = wire.lanes_bytes(operation.detail(self.i))
        self.seq = self.seq + 1 & wire.MASK32
        self.kind, self.tag, self.lanes = kind, wire.tag_of(operation.hash, self.i), len(body) // 4
        if kind == wire.GUESS:
            self.tag ^= self.scale  # R-WK-18
        self.lane_op = operation.way.lane_op if kind == wire.DATA else ADD_LANES
        if self.lane_op == SHORT_LANES:  # R-WK-16
            body = body[:max(16, -(-len(body.rstrip(b"\0")) // 16) * 16)]
        self.sent = len(body) // 4
        self.datagram = bytearray(wire.build(wire.UPDATE, self.pair.shard, self.seq, self.index,
                                             kind | self.lane_op << 2 | sticky, exponent, self.tag, body))
        self.copies, self.attempt, self.is_probed = 0, 0, False


class Pair:
    """A stream of a shard: a pool of slots, and the chunks that wait for them. R-MAP-3."""

    def __init__(self, shard, base, pool):
        self.shard, self.pool, self.window = shard, pool, min(shard.window, pool)
        self.slots = [Slot(self, base + i) for i in range(pool)]
        self.chunks, self.next_k, self.in_window = {}, 0, 0

    def enter(self, slot):
        self.in_window += not slot.in_window
        slot.in_window = True

    def leave(self, slot):
        self.in_window -= slot.in_window
        slot.in_window = False


class Shard:
    def __init__(self, grant, host, size, mtu):
        self.__dict__.update(grant)  # job, generation, child, slots, window, lanes, run, ...
        self.size, self.peer = size, (grant.get("address") or host, grant["port"])
        is_v6 = ":" in self.peer[0]
        self.socket = socket.socket(socket.AF_INET6 if is_v6 else socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.socket.connect(self.peer)  # so the kernel drops what others send
        self.socket.setblocking(False)
        headers = (40 if is_v6 else 20) + 8 + wire.HEADER.size
        self.lanes = min(self.lanes, (mtu - headers) // 16 * 4)
        express = min(max(4, self.slots // 8), self.slots - self.run)  # R-MAP-2
        bulk = (self.slots - express) // self.run * self.run
        self.pairs = Pair(self, 0, express), Pair(self, express, bulk)
        self.by_index = {slot.index: slot for pair in self.pairs for slot in pair.slots}
        self.flight, self.ring = {}, {}  # outstanding slots, by their last attempt; R-PACE-7
        self.is_welcome, self.serial, self.hello_at, self.is_answered = False, 0, 0.0, True
        self.srtt, self.rttvar, self.backoff, self.backoff_at = None, 0.0, 1, 0.0
        self.heard_at = self.full_at = self.result_at = self.need_at = 0.0
        self.quiet_at, self.waits = [0.0, 0.0], [(0.0, 0.0)]  # of each pair; R-PACE-11: when, and how long
        self.orders, self.attempts, self.latest = 0, 0, []

    def sample(self, rtt):
        """R-PACE-1, RFC 6298."""
        if self.srtt is None:
            self.srtt, self.rttvar = rtt, rtt / 2
        else:
            self.rttvar += (abs(self.srtt - rtt) - self.rttvar) / 4
            self.srtt += (rtt - self.srtt) / 8
        self.backoff = 1

    def bound(self, took):
        """R-PACE-2: the back-off need not be longer than a round trip can be."""
        while self.backoff > 1 and took < self.base() * self.backoff / 2:
            self.backoff //= 2

    def base(self):
        """R-PACE-2, without back-off."""
        if self.srtt is None:
            return 0.1
        return min(max(self.srtt + 4 * self.rttvar, 2 * self.srtt, 0.001), 2)

    def rto(self):
        return min(self.base() * self.backoff, max(self.base(), 0.25))

    def waited(self, took):
        """R-PACE-11: this span and the one before it."""
        if now() - self.waits[-1][0] >= 1:
            self.waits = self.waits[-1:] + [(now(), took)]
        self.waits[-1] = self.waits[-1][0], max(self.waits[-1][1], took)

    def time_out(self, stream, count):
        """R-PACE-11."""
        pair = self.pairs[stream]
        if stream == EXPRESS or (count <= 3 and pair.in_window < pair.window):
            return self.rto()
        return max(self.rto(), min(2 * max(took for _, took in self.waits), 0.25))

    def attempted(self, slot):
        """Something about the slot goes out: it goes to its list's tail."""
        self.orders += 1
        slot.order, slot.attempt_at = self.orders, now()
        if not self.flight and not self.ring:
            self.heard_at = self.full_at = max(self.heard_at, slot.attempt_at)
        home = self.ring if slot.index in self.ring else self.flight
        home.pop(slot.index, None)
        home[slot.index] = slot

    def hold(self, slot):
        self.flight.pop(slot.index, None)
        self.ring.setdefault(slot.index, slot)


class Worker:
    def __init__(self, host, port, job, rank, size, mtu=1500, patience_s=20):
        self.host, self.rank, self.size, self.mtu = host, rank, size, mtu
        self.shards, self.operations, self.submitted = [], {}, 0
        self.counters, self.lanes = [0, 0], 0  # R-MAP-3: c of express and bulk
        self.ring_interval, self.ring_at, self.stall_at = 0.004, 0.0, 0.0
        self.inbox, self.state, self.heartbeat_s = b"", "JOINING", 10.0
        self.heard_at = self.said_at = now()
        self.counts = collections.Counter()
        limit = now() + patience_s
        self.control = self.connect(port, limit)
        listed = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.say("JOIN", version_min=3, version_max=3, job=job, size=size, rank=rank, mtu=mtu,
                 host=socket.gethostname()[:63], pid=os.getpid(), timeout_ms=int(1000 * patience_s),
                 list=listed, list_hash=f"{wire.fnv1a64(listed.encode()):016x}")
        while self.state != "RUN":
            if now() > limit + 0.5:  # R-CT-50
                self.fail("timeout", f"the job has not begun in {patience_s} s")
            self.turn()
        self.past = Past([sum(shard.pairs[stream].pool for shard in self.shards) for stream in (EXPRESS, BULK)])

    # ---- control ----

    def connect(self, port, limit):
        while True:  # R-CT-51
            try:
                return socket.create_connection((self.host, port), timeout=5)
            except OSError:
                if now() > limit:
                    raise
                time.sleep(0.25)

    def say(self, kind, **keys):
        body = json.dumps(dict(keys, type=kind)).encode()  # R-CT-2
        self.control.sendall(struct.pack(">I", len(body)) + body)
        self.said_at = now()

    def fail(self, cause, text):
        """R-CT-53."""
        self.say("ABORT", cause=cause, rank=self.rank, text=text)
        self.last_words()
        raise Failed(cause, text, self.rank)

    def last_words(self):
        """R-CT-6."""
        limit = now() + 5
        try:
            self.control.shutdown(socket.SHUT_WR)
            while now() < limit:
                self.control.settimeout(max(limit - now(), 0.01))
                if not self.control.recv(65536):
                    break
        except OSError:
            pass
        for one in [self.control] + [shard.socket for shard in self.shards]:
            one.close()

    def read_control(self):
        data = self.control.recv(65536)
        if not data:
            raise Failed("remote", f"the aggregator {self.host} has closed the connection")
        self.heard_at = now()
        self.inbox += data
        while len(self.inbox) >= 4 and len(self.inbox) - 4 >= int.from_bytes(self.inbox[:4], "big"):
            end = 4 + int.from_bytes(self.inbox[:4], "big")
            message, self.inbox = json.loads(self.inbox[4:end]), self.inbox[end:]
            self.on_message(message["type"], message)

    def on_message(self, kind, message):
        """R-CT-3, R-CT-4."""
        if kind == "GRANT":
            self.heartbeat_s = message["heartbeat_ms"] / 1000
            self.nonce = bytes.fromhex(message["nonce"])
            peer = self.control.getpeername()[0]
            self.shards = [Shard(one, peer, self.size, self.mtu) for one in message["shards"]]
            self.lanes, self.state = min(shard.lanes for shard in self.shards), "HELLOING"
        elif kind == "START":
            self.lanes, self.state = message["lanes"], "RUN"
        elif kind == "PING":
            self.say("PONG", serial=message["serial"])
        elif kind == "QUERY":  # R-CT-36
            ops = [op for n, op in sorted(self.operations.items()) if n >= message["from"]]
            self.say("OPINFO", round=message["round"], submitted=self.submitted,
                     oldest=min(self.operations, default=self.submitted), more=len(ops) > 512,
                     ops=[op.describe() for op in ops[:512]])
        elif kind == "LEFT":
            self.state = "LEFT"
        elif kind in ("ABORT", "DENIED"):
            self.last_words()
            raise Failed(message["cause"], message["text"], message.get("rank", 0xFFFF))

    def leave(self):
        while self.operations:
            self.turn()
        self.say("LEAVE", submitted=self.submitted)
        while self.state != "LEFT":
            self.turn()
        self.last_words()

    # ---- operations ----

    def allreduce_start(self, values, dtype, op=SUM, name=""):
        operation = Operation(self.submitted, values, dtype, op, name, self.lanes, self.size)
        self.operations[self.submitted] = operation
        self.submitted += 1  # R-MAP-1
        may_be_guessed = operation.is_scaled and dtype == FLOAT32 and self.size <= 64
        operation.entry = self.past.put(operation.key, operation.stream, operation.chunks, may_be_guessed)
        run = self.shards[0].run if operation.stream == BULK else 1
        for i in range(operation.chunks):  # R-MAP-3
            c = self.counters[operation.stream]
            self.counters[operation.stream] += 1
            g = c // run
            pair = self.shards[g % len(self.shards)].pairs[operation.stream]
            pair.chunks[g // len(self.shards) * run + c % run] = (operation, i)
        return operation

    def wait(self, operation):
        while operation.left:
            self.turn()
        return operation.values()

    def allreduce(self, values, dtype, op=SUM):
        return self.wait(self.allreduce_start(values, dtype, op))

    def start_chunks(self, pair):
        """R-WK-7: strictly in order; a busy slot is waited for."""
        while pair.in_window < pair.window and pair.next_k in pair.chunks:
            slot = pair.slots[pair.next_k % pair.pool]
            if slot.operation:
                break
            operation, i = pair.chunks[pair.next_k]
            is_unscaled = operation.is_scaled and slot.exponent == wire.UNKNOWN  # R-WK-8
            kind, guess = wire.EXPONENT if is_unscaled else wire.DATA, None
            if is_unscaled:
                guess = self.past.guess(operation.entry, i)
            if guess is False:
                break  # R-WK-18: it waits
            if guess is not None:
                kind, slot.scale = wire.GUESS, guess
            slot.k, slot.operation, slot.i = pair.next_k, operation, i
            del pair.chunks[pair.next_k]
            pair.next_k += 1
            slot.compose(kind)
            self.send_update(slot)

    # ---- what goes ----

    def send(self, shard, datagram):
        self.counts["packets"] += 1
        try:
            shard.socket.send(datagram)
        except (BlockingIOError, ConnectionRefusedError):
            pass  # as good as lost

    def send_update(self, slot):
        shard = slot.pair.shard
        if slot.copies:
            slot.datagram[1] |= wire.RESENT
            self.counts["resent"] += 1
        slot.copies, slot.is_probed = slot.copies + 1, False
        if slot.copies >= 5:
            shard.hold(slot)  # R-PACE-7
        slot.pair.enter(slot)
        shard.attempted(slot)
        self.send(shard, slot.datagram)

    def probe(self, slot, is_silent=False):
        shard = slot.pair.shard
        shard.attempts = shard.attempts % wire.MASK32 + 1  # never 0: R-WIRE-10
        slot.attempt, slot.is_probed = shard.attempts, True
        if not is_silent:
            slot.pair.leave(slot)  # R-PACE-5
        shard.attempted(slot)
        self.counts["probes"] += 1
        self.send(shard, wire.build(wire.PROBE, shard, slot.seq, slot.index, tag=slot.attempt))

    def hello(self, shard, is_full=True):
        """R-WIRE-8."""
        shard.serial += 1
        shard.hello_at, shard.is_answered = now(), False
        lanes = max(self.lanes if is_full else 0, wire.HELLO_LANES_MIN)
        body = self.nonce + bytes(4 * lanes - len(self.nonce))
        self.send(shard, wire.build(wire.HELLO, shard, shard.serial, body=body))

    # ---- what comes ----

    def receive(self, shard):
        while True:
            try:
                packet = wire.parse(shard.socket.recv(65536))
            except (BlockingIOError, ConnectionRefusedError):
                return
            if not packet or (packet.job, packet.generation) != (shard.job, shard.generation):
                continue
            shard.heard_at = now()
            slot = shard.by_index.get(packet.slot)
            if packet.type == wire.WELCOME:
                self.on_welcome(shard, packet)
            elif not slot or not slot.operation or packet.seq != slot.seq:
                self.counts["stale"] += 1  # R-WK-3, R-WK-4, R-WK-5
            elif packet.type == wire.RESULT:
                self.on_result(slot, packet)
            elif packet.type in (wire.HELD, wire.NEED):
                self.on_answer(slot, packet)

    def on_welcome(self, shard, packet):
        if packet.seq == shard.serial and not shard.is_answered:
            shard.sample(now() - shard.hello_at)
            shard.is_answered = True
        if packet.lanes < self.lanes:
            return  # a short one proves nothing about the path
        shard.full_at, shard.is_welcome = now(), True
        if self.state == "HELLOING" and all(shard.is_welcome for shard in self.shards):
            self.state = "READY"
            self.say("READY", lanes=self.lanes)

    def on_answer(self, slot, packet):
        shard, is_hint = slot.pair.shard, packet.type == wire.NEED and packet.flags & wire.HINT
        if packet.tag and packet.tag == slot.attempt and not is_hint:  # R-PACE-1
            shard.sample(now() - slot.attempt_at)
        if packet.type == wire.HELD:  # R-WK-4
            shard.hold(slot)
            slot.pair.leave(slot)
        elif slot.is_probed or (is_hint and slot.copies == 1):  # R-WK-5
            shard.need_at = now()
            self.send_update(slot)

    def on_result(self, slot, packet):
        shard, operation = slot.pair.shard, slot.operation
        sent = slot.tag, slot.kind | slot.lane_op << 2
        if (packet.tag, packet.flags & wire.IDENTITY) != sent or not slot.sent <= packet.lanes <= slot.lanes:  # R-WK-6
            self.fail("internal", f"operation {operation.number}: a result of another round")
        if slot.copies == 1 and not slot.attempt:
            if packet.child == shard.child:  # R-PACE-1
                shard.sample(now() - slot.attempt_at)
            else:
                shard.bound(now() - slot.attempt_at)
            bisect.insort(shard.latest, slot.order)  # R-PACE-4: the three latest that have come
            del shard.latest[:-3]
            if slot.pair is shard.pairs[BULK]:
                shard.waited(now() - slot.attempt_at)
        self.counts[("data", "exponent", "detail", "guess")[slot.kind]] += 1
        shard.full_at = shard.result_at = now()
        shard.flight.pop(slot.index, None)
        shard.ring.pop(slot.index, None)
        slot.pair.leave(slot)
        self.ring_interval = min(4 * shard.rto(), 0.25)  # R-PACE-7
        self.ring_at = min(self.ring_at, now() + self.ring_interval)
        slot.exponent = packet.exponent
        if slot.kind == wire.EXPONENT:
            return self.send_next(slot, wire.DATA)
        if slot.kind == wire.GUESS:
            own, slot.exponent = packet.exponent >> 8, packet.exponent & 255
            slot.exponent = wire.UNKNOWN if slot.exponent == 255 else slot.exponent
            if not fits(slot.scale, own):
                slot.exponent = own
                return self.send_next(slot, wire.DATA)
        lanes, at = wire.lanes_of(packet.body) + (0,) * (slot.lanes - packet.lanes), slot.i * operation.lanes
        part = slice(at, at + len(operation.part(slot.i)))
        kind = operation.packed, self.size, operation.op == AVG
        if slot.kind in (wire.DATA, wire.GUESS):
            if operation.is_scaled:
                operation.entry.agreed[slot.i] = own if slot.kind == wire.GUESS else min(slot.scale, 254)
            slot.sums = lanes
            values = operation.unpack(lanes, slot.scale, kind[2])
            operation.result[part] = array.array(operation.result.typecode, values[:part.stop - at])
            if packet.flags & wire.STICKY:  # R-WK-10
                return self.send_next(slot, wire.DETAIL)
        else:
            for k, value in enumerate(operation.result[part]):
                operation.result[at + k] = quant.amend(value, slot.sums[k], lanes[k], *kind)
        slot.operation = None
        operation.left -= 1
        if not operation.left:
            del self.operations[operation.number]

    def send_next(self, slot, kind):
        slot.compose(kind)
        self.send_update(slot)

    # ---- when ----

    def timers(self):
        at = now()
        beat_s = min(self.heartbeat_s / 5, 2)  # R-CT-9
        if at - self.said_at > beat_s:
            self.say("HEARTBEAT")
        if at - self.heard_at > self.heartbeat_s + 2 * beat_s:
            self.fail("remote", f"the aggregator was silent for {self.heartbeat_s} s")
        for shard in self.shards:
            if self.state == "HELLOING" and not shard.is_welcome and at - shard.hello_at > 0.1:
                if shard.serial == 100:  # R-CT-52
                    self.fail("system", f"TCP to {self.host} works, UDP to {shard.peer} does not")
                self.hello(shard)
            elif shard.flight or shard.ring:
                self.slot_timers(shard, at)
        if at > self.ring_at and any(shard.ring for shard in self.shards):
            self.fire_ring(at)
        oldest = self.operations[min(self.operations)] if self.operations else None
        if oldest and at - self.stall_at > 1:  # R-CT-55
            if at - max([oldest.submitted_at] + [shard.full_at for shard in self.shards]) > 0.5:
                self.stall_at = at
                self.say("STALL", number=oldest.number,
                         waited_ms=int(1000 * (at - oldest.submitted_at)))

    def slot_timers(self, shard, at):
        rto, gap = shard.rto(), shard.latest[0] if len(shard.latest) == 3 else 0
        wait = shard.srtt + min(shard.srtt, 0.001) if shard.srtt else rto  # R-PACE-4
        for slot in list(shard.flight.values()) + list(shard.ring.values()):
            if slot.order < gap and at - slot.attempt_at >= wait:
                self.probe(slot)  # R-PACE-4
        late = []
        for stream in (EXPRESS, BULK):  # R-PACE-3
            flight = [slot for slot in shard.flight.values() if slot.pair is shard.pairs[stream]]
            limit = shard.time_out(stream, len(flight))
            out = [slot for slot in flight if at - max(slot.attempt_at, shard.result_at) > limit]
            if out and shard.need_at <= out[0].attempt_at:  # in doubt
                out = out[:max(8, -(-len(flight) // 16))] if at - shard.quiet_at[stream] > limit else []
                shard.quiet_at[stream] = at if out else shard.quiet_at[stream]
            late += out
        for slot in late:
            self.probe(slot, shard.need_at <= slot.attempt_at)
        if late and at - shard.backoff_at > rto:  # R-PACE-2
            shard.backoff, shard.backoff_at = min(2 * shard.backoff, 1 << 16), at
        if at - shard.hello_at > 0.5 and at - shard.full_at > 0.5:  # R-PACE-10
            self.hello(shard)
        elif at - shard.hello_at > 0.25 and at - shard.heard_at > 3 * shard.base():  # R-PACE-8
            self.hello(shard, is_full=False)

    def fire_ring(self, at):
        """R-PACE-7. attempted() has sent what was probed to the tail."""
        for shard in self.shards:
            count = max(len(shard.ring) // 16, int(self.ring_interval / 0.004), 1)
            for slot in list(shard.ring.values())[:count]:
                if at - slot.attempt_at < shard.base():
                    break
                self.probe(slot)
        self.ring_interval = min(2 * self.ring_interval, 0.25)
        self.ring_at = at + self.ring_interval * (1 - random.random() / 4)

    def turn(self):
        """Serves what has come, looks at the clocks, sends what may go."""
        sockets = [self.control] + [shard.socket for shard in self.shards]
        ready = select.select(sockets, [], [], 0.001)[0]
        for shard in self.shards:
            if shard.socket in ready:
                self.receive(shard)
        if self.control in ready:
            self.read_control()
        self.timers()
        for shard in self.shards:
            for pair in shard.pairs:
                self.start_chunks(pair)
