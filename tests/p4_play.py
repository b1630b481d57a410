#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""p4_play.py PROGRAM SOURCE ARGUMENT... - play the packets that `SOURCE MODE ARGUMENT...` says (p4_cases: golden packets;
p4_packets: random ones) against a running bmv2 with src/p4's PROGRAM, which is of MODE: dense.p4 or latency.p4. Each
packet's slot is written to the registers if it is not what they hold, the packet is sent, and the answers, the counters
of verdicts and the registers compared. p4c-bm2-ss and simple_switch are looked for on PATH; without them, or without
the right to make a network namespace, this is skipped (77)."""
import collections
import fcntl
import glob
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import zlib

from p4_switch import Long, Switch, call

TOOLS = ("p4c-bm2-ss", "simple_switch")
MAC, SWITCH, PORT, HOST = "02aa00000001", "0a000001", 7000, "0a000002"
VERDICTS = ("ABSORB REPLY MULTICAST UP HELD_UP MISMATCH DROP_TYPE DROP_JOB DROP_GENERATION DROP_CHILD DROP_SLOT "
            "DROP_LANES DROP_ADDRESS DROP_STALE DROP_ALARM").split()
FAULTS = ["no fault", "SHORT", "VERSION", "TYPE", "LANES", "LENGTH", "FLAGS"]
REPLY, MULTICAST, MISMATCH, DROP_ALARM = map(VERDICTS.index, ("REPLY", "MULTICAST", "MISMATCH", "DROP_ALARM"))
LANES = int(os.environ.get("P4_LANES", "32"))  # of the program, when it is compiled
HALVES = int(os.environ.get("P4_HALVES", "0"))  # 1: as a Tofino has 32 lanes, two in a register, one said in a pass
SUMS = [f"sum_{i // 4}_{'abcd'[i % 4]}" for i in range(LANES)]
if HALVES:
    SUMS = [f"{name}_hi" for name in SUMS[:LANES // 2]] + [f"{name}_lo" for name in SUMS[:LANES // 2]]
MAX, GUESS, ACKNOWLEDGED, ALL, UPDATE, OTHER = 2, 3, 2, 0xffffffff, 0x11, 0xffff
FAILED_MAX = 10
PATIENCE = 20  # seconds: where many processes share a processor
MODE = "latency" if "latency" in os.path.basename(sys.argv[1]) else "dense"
INGRESS, EGRESS = "switch_ingress.", "switch_egress."


def key(number, width):
    return {1: 0, 2: {1: number.to_bytes(width, "big")}}


def add(table, match, action, data):
    """An entry; match and data are (number, bytes)."""
    return call("standard:bm_mt_add_entry", 0, table, [key(*one) for one in match], action,
                [number.to_bytes(width, "big") for number, width in data], {})


class Dense:
    """What the registers of dense.p4 say, as core/dense/switch.h has it."""
    TABLES = (INGRESS + "jobs", INGRESS + "addresses", EGRESS + "children")
    SLOT = ("lives", "rounds_lo", "rounds_hi", "phases", "missing", "left", "bares")
    COPY = ["copies", "tags", "kinds", "widths", "owns", "nexts", "lasts", "stickies", *SUMS]

    def names(self, at):
        yield from ((name, at) for name in self.SLOT)
        yield from ((name, 2 * at + copy) for copy in (0, 1) for name in self.COPY)

    def values(self, slot, job):
        full = (1 << job["children"]) - 1
        phase, missing = slot["phase"], full & ~slot["set"]
        values = [slot["generation"], phase - (not slot["final"]) & ALL, phase, phase, missing, missing, slot["bare"]]
        for copy in slot["copies"]:
            flags, lanes, exponent = copy["flags"], len(copy["sum"]), copy["exponent"]
            parts = (exponent >> 8, exponent & 0xff) if flags & 3 == GUESS else (exponent, 0)
            fill = 0x80000000 if flags >> 2 & 3 == MAX else 0  # R-CHIP-2
            values += [slot["generation"], copy["tag"], flags & 15, lanes, *parts, copy["last"], flags & 0x60]
            values += [lane & ALL for lane in copy["sum"]] + [fill] * (LANES - lanes)
        return values

    def slot(self, values, job):
        """The opposite of values(). A copy of another life is empty (R-SW-2)."""
        full = (1 << job["children"]) - 1
        (generation, final, phase, again, missing, left, bare), rest = values[:7], values[7:]
        slot = {"generation": generation, "phase": phase, "final": int(final == phase), "copies": [],
                "set": full & ~missing, "bare": bare}
        if again != phase or left != missing or phase - final & ALL > 1:
            slot["phases"] = final, phase, again, missing, left
        for copy in (0, 1):
            life, tag, kind, lanes, own, following, last, sticky, *sums = rest[copy * len(self.COPY):][:len(self.COPY)]
            exponent = own << 8 | following if kind & 3 == GUESS else own
            slot["copies"].append({
                "tag": tag, "flags": kind | sticky, "exponent": exponent, "last": last,
                "sum": [lane - (lane >> 31 << 32) for lane in sums[:lanes]]} if life == generation else {
                    "tag": 0, "flags": 0, "exponent": 0, "last": 0, "sum": []})
        return slot


class Latency:
    """What those of latency.p4 say, as core/latency/switch_latency.h has it."""
    TABLES = (*Dense.TABLES, INGRESS + "acknowledged")
    SLOT = ["lives_lo", "lives_hi", "rounds_lo", "rounds_hi", "phases", "tags", "counts", "missing", "left", "unsaid",
            "unsaid_left", "lasts", "stickies", *SUMS]

    def names(self, at):
        return [(name, at) for name in self.SLOT]

    def values(self, slot, job):
        full, number, lanes = (1 << job["children"]) - 1, slot["round"], len(slot["sum"])
        between = slot.get("between")  # two passes of this: the round is not final yet, or not free
        final, free = slot["set"] == full and between != UPDATE, job["mode"] == ACKNOWLEDGED and slot["acked"] == full and not between
        missing, unsaid = full & ~slot["set"], full & ~slot["acked"]
        return [slot["generation"], number - (not free) & ALL, number - (not final) & ALL, number, number, slot["tag"],
                lanes, missing, missing, unsaid, unsaid, slot["last"], slot["flags"],
                *(lane & ALL for lane in slot["sum"]), *[0] * (LANES - lanes)]

    def slot(self, values, job):
        """The opposite of values()."""
        full = (1 << job["children"]) - 1
        life, free, final, number, again, tag, lanes, missing, left, unsaid, unsaid_left, last, flags, *sums = values
        slot = {"generation": life, "round": number, "tag": tag, "flags": flags, "last": last, "set": full & ~missing,
                "acked": full & ~unsaid, "sum": [lane - (lane >> 31 << 32) for lane in sums[:lanes]]}
        is_free = job["mode"] == ACKNOWLEDGED and unsaid == 0
        if life and (again != number or left != missing or unsaid_left != unsaid or
                     number - final & ALL != (missing != 0) or (is_free and free != number)):
            slot["words"] = values[:13]
        return slot


def turned(datagram):
    """Golden and random packets have little-endian lanes, a chip big-endian ones (R-CHIP-12)."""
    whole = len(datagram) & ~3
    return datagram[:24] + b"".join(datagram[i:i + 4][::-1] for i in range(24, whole, 4)) + datagram[max(whole, 24):]


def frame(datagram, child):
    udp = struct.pack("!HHHH", 20000 + child, PORT, 8 + len(datagram), 0)
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 28 + len(datagram), 0, 0x4000, 64, 17, 0)
    return bytes.fromhex(MAC + "02bb00000001" + "0800") + ip + bytes.fromhex(HOST + SWITCH) + udp + datagram


def is_sound(data):
    """Its IPv4 header's checksum is right, and UDP's is 0, R-CHIP-7."""
    words = sum(struct.unpack("!10H", data[14:34]))
    return (words & 0xffff) + (words >> 16) == 0xffff and data[40:42] == b"\0\0"


class Player:
    """A program, and what its tables and registers hold."""

    def __init__(self, switch, link, control, layout):
        self.switch, self.link, self.control, self.layout = switch, link, control, layout
        self.jobs, self.slots, self.reads = {}, {}, {}
        self.counters = [call("standard:bm_counter_read", 0, INGRESS + name, i)
                         for name, count in (("verdicts", len(VERDICTS)), ("faults", len(FAULTS))) for i in range(count)]
        calls = [add(INGRESS + "here", [(int(SWITCH, 16), 4), (PORT, 2)], INGRESS + "mine", [])]
        self.groups = set()
        self.switch.ask(*calls)
        self.counts = self.count()

    def count(self):
        return [one[2] for one in self.switch.ask(*self.counters)]

    def group(self, children):
        """Group n has n children; child c is replica c, all by the one port."""
        if children not in self.groups:
            pre = "simple_pre_lag:bm_mc_"
            self.groups.add(children)
            group, *nodes = self.switch.ask(call(pre + "mgrp_create", 0, children),
                                            *(call(pre + "node_create", 0, c, "1", "") for c in range(children)))
            self.switch.ask(*(call(pre + "node_associate", 0, group, node) for node in nodes))
        return children

    def set_jobs(self, jobs):
        if jobs == self.jobs:
            return
        self.jobs = dict(jobs)
        calls = [call("standard:bm_mt_clear_entries", 0, table, False) for table in self.layout.TABLES]
        for index, (job, base) in jobs.items():
            n = job["children"]
            if job["mode"] == ACKNOWLEDGED:
                calls.append(add(INGRESS + "acknowledged", [(index, 2)], INGRESS + "acks", []))
            if not job["enabled"] or not job["generation"]:
                continue
            calls.append(add(INGRESS + "jobs", [(index, 2)], INGRESS + "set_job", [
                (job["generation"], 4), ((1 << n) - 1, 4), (n, 2), (job["slots"], 4),
                (job["lanes"], 2), (base, 4), (self.group(n), 2)]))
            for child in range(n):
                port = (20000 + child, 2)
                calls += [add(INGRESS + "addresses", [(index, 2), (child, 2), (int(HOST, 16), 4), port], INGRESS + "bound", []),
                          add(EGRESS + "children", [(index, 2), (child, 2)], EGRESS + "to",
                              [(0x02bb00000001, 6), (int(HOST, 16), 4), port])]
        self.switch.ask(*calls)

    def set_slot(self, at, slot, job):
        """Other slots are not written; values that no rule asks for are of no life."""
        if at is not None and self.slots.get(at) != slot:
            values = self.layout.values(slot, job)
            self.switch.ask(*(call("standard:bm_register_write", 0, INGRESS + name, i, Long(one))
                              for (name, i), one in zip(self.layout.names(at), values, strict=True)))

    def get_slot(self, at, job):
        if at not in self.reads:
            self.reads[at] = [call("standard:bm_register_read", 0, INGRESS + name, i)
                              for name, i in self.layout.names(at)]
        return self.layout.slot(self.switch.longs(*self.reads[at]), job)

    def receive(self, count):
        """{(child, datagram): how often} of what comes. What comes without having been asked for, and late, is found with
        the next packet."""
        got, end = collections.Counter(), time.time() + PATIENCE
        while sum(got.values()) < count and time.time() < end:
            try:
                data = self.link.recv(4096)
            except TimeoutError:
                continue
            if data[12:14] != b"\x08\x00" or data[:6] == bytes.fromhex(MAC):
                continue
            port, length = struct.unpack("!HH", data[36:40])
            got[port - 20000, turned(data[42:34 + length]).hex() if is_sound(data) else "checksum"] += 1
        return got

    def counted(self):
        """What the counters of verdicts and faults have gained: one, as soon as the packet has been taken."""
        end = time.time() + PATIENCE
        while (now := self.count()) == self.counts and time.time() < end:
            pass
        gained = [after - before for before, after in zip(self.counts, now)]
        self.counts = now
        return collections.Counter({(VERDICTS + FAULTS)[i]: n for i, n in enumerate(gained) if n})

    def told(self, case):
        """What control is told, and what it is to be told: R-CHIP-8."""
        packet, result, last = bytes.fromhex(case["packet"]), case["result"], OTHER
        self.control.settimeout(PATIENCE if result in (MISMATCH, DROP_ALARM) else 0)
        try:
            data = self.control.recv(4096)
            got = turned(data[42:]) if data[:6] == bytes.fromhex(MAC) else None
        except (TimeoutError, BlockingIOError):
            got = None
        if result not in (MISMATCH, DROP_ALARM):
            return got, None
        if result == MISMATCH:
            slot = case["before"]
            last = (slot["copies"][packet[11] & 1] if MODE == "dense" else slot)["last"]
        return got, packet[:16] + struct.pack("!H", last) + packet[18:20] + struct.pack("!I", result) + packet[24:]

    def wanted(self, case):
        """(child, datagram) of each answer."""
        answer = case.get("answer")
        if case["result"] == REPLY:
            return collections.Counter([(case["from"], answer)])
        if case["result"] != MULTICAST:
            return collections.Counter()
        bare = case["after"].get("bare", 0)
        return collections.Counter((child, answer[:36] + "0000" + answer[40:48] if bare >> child & 1 else answer)
                                   for child in range(case["job"]["children"]))

    def play(self, case):
        """What is wrong, or None."""
        at = case.get("at")
        self.set_slot(at, case.get("before"), case["job"])
        wanted = self.wanted(case)
        self.link.send(frame(turned(bytes.fromhex(case["packet"])), case["from"]))
        got, counted = self.receive(sum(wanted.values())), self.counted()
        told, to_tell = self.told(case)
        result = (VERDICTS + FAULTS)[case["result"]]
        if counted != {result: 1}:
            return f"it is {result}, and these are counted: {dict(counted)}"
        if got != wanted:
            return f"answers {sorted(got.items())}, not {sorted(wanted.items())}"
        if told != to_tell:
            return f"control is told {told and told.hex()}, not {to_tell and to_tell.hex()}"
        if at is not None:
            self.slots[at] = have = self.get_slot(at, case["job"])
            if have != case["after"]:
                return f"the slot is {have}, not {case['after']}"
        return None


def cases(source, is_random):
    """Of each packet: its jobs, and the line of JSON."""
    with subprocess.Popen(source, stdout=subprocess.PIPE, text=True) as said:
        jobs = {}
        for line in said.stdout:
            case = json.loads(line)
            if "job" in case:
                job = case["job"]
                base = 2 * job["index"]
                if not is_random:  # a job may have more slots than the program: the one that is asked for lies low
                    jobs, slot = {}, int(case["packet"][24:28], 16)
                    case["at"] %= 64
                    base = case["at"] - slot & 0xffffffff
                if job["children"]:
                    jobs[job["index"]] = job, base
            yield jobs, case
        if said.wait():
            sys.exit(f"{source[0]} has failed")


def is_longer(case):
    """Does a child that is in bring more lanes than the copy has? R-CHIP-2 leaves that to the chip."""
    before, packet = case.get("before"), bytes.fromhex(case["packet"])
    if MODE != "dense" or not before or len(packet) < 24:
        return False
    kind, flags, _, _, seq, _, child, _, lanes, tag = struct.unpack("!BBHIIHHHHI", packet[:24])
    if kind != UPDATE or seq != before["phase"] or before["final"] or not before["set"] >> child & 1:
        return False
    copy = before["copies"][seq & 1]
    return tag == copy["tag"] and not (flags ^ copy["flags"]) & 15 and lanes > len(copy["sum"])


def between(case):
    """The packet that completes a round comes again while it goes round: by R-CHIP-3 that one completes the round. None: the
    case completes none."""
    if case["result"] != MULTICAST or case.get("at") is None:
        return None
    kind = int(case["packet"][:2], 16)
    before = {**case["after"], "final": 0} if MODE == "dense" else {**case["after"], "between": kind}
    return {**case, "name": f"{case['name']}, between two passes", "before": before}


def play_all(player, source):
    failed, played, between_passes, reasons = 0, 0, 0, collections.Counter()
    is_random = "packets" in source[0]
    start = time.time()
    for jobs, case in cases(source, is_random):
        if "reason" in case or is_longer(case):
            reasons[case.get("reason", "it comes again with more lanes than the copy has")] += 1
            continue
        player.set_jobs(jobs)
        wrong = player.play(case)
        played += 1
        if not wrong and (again := between(case)):
            wrong = player.play(case := again)
            between_passes += 1
        failed += bool(wrong)
        if wrong:
            print(f"{case['name']}: {wrong}")
        if failed == FAILED_MAX:
            print("and perhaps others: no further ones are played")
            break
    for reason, count in sorted(reasons.items()):
        print(f"not applicable: {count}: {reason}")
    print(f"between two passes: {between_passes} packets again")
    print(f"{played - failed} passed, {failed} failed, {sum(reasons.values())} do not apply, {time.time() - start:.0f} s")
    return failed > 0 or not played


def compile_once(program, folder):
    """bmv2's form of the program, in this folder; p4c takes a minute, so tests that run together wait for the first of them."""
    text = b"".join(open(path, "rb").read() for path in sorted(glob.glob(os.path.dirname(program) + "/*.p4")))
    compiled = os.path.join(folder, f"{os.path.basename(program)}.{zlib.crc32(text + program.encode()):08x}.{LANES}.{HALVES}.json")
    part = f"{compiled}.part"
    with open(f"{compiled}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(compiled):
            subprocess.run(["p4c-bm2-ss", "--Wdisable", f"-DLANES={LANES}", f"-DHALVES={HALVES}", "-o", part, program], check=True)
            os.rename(part, compiled)
    return compiled


def main():
    program, source = sys.argv[1], sys.argv[2:]
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing or os.geteuid():
        print("NOT HERE: bmv2 and p4c: " + (", ".join(missing) or "root, for a network namespace"))
        return 77
    if "P4_PLAY_INSIDE" not in os.environ:
        return subprocess.run(["unshare", "-n", sys.executable, *sys.argv], env=os.environ | {"P4_PLAY_INSIDE": "1"},
                              check=False).returncode
    for command in ("link set lo up", "link add sw0 type veth peer name host0", "link set sw0 up", "link set host0 up",
                    "link add cpu0 type veth peer name control0", "link set cpu0 up", "link set control0 up"):
        subprocess.run(["ip", *command.split()], check=True)
    source.insert(1, MODE)
    with tempfile.TemporaryDirectory() as folder:
        compiled = compile_once(program, os.environ.get("P4_COMPILED", os.path.dirname(source[0])))
        link, control = (socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800)) for _ in range(2))
        link.bind(("host0", 0))
        link.settimeout(0.02)
        control.bind(("control0", 0))
        switch = Switch(compiled, folder, "sw0", "cpu0")
        try:
            return play_all(Player(switch, link, control, Latency() if MODE == "latency" else Dense()), source)
        finally:
            switch.close()


sys.exit(main())
