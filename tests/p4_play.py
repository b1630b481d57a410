#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""p4_play.py CASES PROGRAM FILE... - play the golden packets (R-CHIP-6: those that a chip has to know) against a running
bmv2 with src/p4/dense.p4: each case's state is written to the registers, its packet sent, and the answer, the counter of
verdicts and the registers compared. CASES is p4_cases. p4c-bm2-ss, simple_switch and simple_switch_CLI are looked for
on PATH; without them, or without the right to make a network namespace, this is skipped (77)."""
import collections
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time

TOOLS = ("p4c-bm2-ss", "simple_switch", "simple_switch_CLI")
MAC, SWITCH, PORT = "02aa00000001", "0a000001", 7000
VERDICTS = ("ABSORB REPLY MULTICAST UP HELD_UP MISMATCH DROP_TYPE DROP_JOB DROP_GENERATION DROP_CHILD DROP_SLOT "
            "DROP_LANES DROP_ADDRESS DROP_STALE DROP_ALARM").split()
LANES, QUIET = 32, 0.02
MAX = 2


class Switch:
    """bmv2 and its command line."""

    def __init__(self, program, folder):
        self.log = open(os.path.join(folder, "log"), "wb")
        self.child = subprocess.Popen(["simple_switch", "-i", "0@sw0", "--thrift-port", "9777", "-L", "off", program],
                                      stdout=self.log, stderr=self.log)
        time.sleep(2)
        self.line = subprocess.Popen(["simple_switch_CLI", "--thrift-port", "9777"], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1)
        self.serial = 0

    def say(self, *commands):
        """What is said to these commands."""
        self.serial += 1
        self.line.stdin.write("\n".join(commands) + f"\nend{self.serial}\n")
        self.line.stdin.flush()
        said = []
        for line in self.line.stdout:
            if f"end{self.serial}" in line:
                return "".join(said)
            said.append(line)
        sys.exit("simple_switch_CLI has ended: " + "".join(said)[-500:])

    def numbers(self, *commands):
        return [int(number) for number in re.findall(r"\]= *(\d+)", self.say(*commands))]

    def counts(self):
        said = self.say(*(f"counter_read dense_ingress.verdicts {i}" for i in range(len(VERDICTS))))
        return [int(number) for number in re.findall(r"(\d+) packets", said)]

    def close(self):
        for process in (self.line, self.child):
            process.kill()
            process.wait()


def registers(slot):
    """Each register of the slot: name and index."""
    yield from ((name, slot) for name in ("phases", "sets", "bares"))
    for copy in (0, 1):
        yield from ((name, 2 * slot + copy) for name in ("tags", "kinds", "rests"))
        yield from ((f"sum_{i // 4}_{'abcd'[i % 4]}", 2 * slot + copy) for i in range(LANES))


def state(before, life):
    """The registers' values, in the order of registers()."""
    name = life << 48 | (before["phase"] & 0xffff) << 32
    values = [life << 48 | before["final"] << 32 | before["phase"], name | before["set"], name | before["bare"]]
    for copy in before["copies"]:
        flags, lanes = copy["flags"], len(copy["sum"])
        fill = 0x80000000 if flags >> 2 & 3 == MAX else 0
        values += [copy["tag"], life << 24 | (flags & 15) << 16 | lanes, (flags & 0x60) << 32 | copy["last"] << 16 |
                   copy["exponent"]]
        values += [lane & 0xffffffff for lane in copy["sum"]] + [fill] * (LANES - lanes)
    return values


def frame(datagram, child):
    udp = struct.pack("!HHHH", 20000 + child, PORT, 8 + len(datagram), 0)
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 28 + len(datagram), 0, 0x4000, 64, 17, 0)
    ip += bytes.fromhex("0a000002" + SWITCH)
    return bytes.fromhex(MAC + "02bb00000001" + "0800") + ip + udp + datagram


def is_sound(data):
    """Its IPv4 header's checksum is right, and UDP's is 0, R-CHIP-7."""
    words = sum(struct.unpack("!10H", data[14:34]))
    return (words & 0xffff) + (words >> 16) == 0xffff and data[40:42] == b"\0\0"


def receive(link, count):
    """{child: datagram} of what comes; what else comes within the time is a fault as well."""
    got, end = collections.Counter(), time.time() + 2
    while time.time() < end:
        try:
            data = link.recv(4096)
        except TimeoutError:
            if sum(got.values()) >= count:
                break
            continue
        if data[12:14] != b"\x08\x00" or data[:6] == bytes.fromhex(MAC):
            continue
        port, length = struct.unpack("!HH", data[36:40])
        got[port - 20000, data[42:34 + length].hex() if is_sound(data) else "checksum"] += 1
    return got


def set_up(switch, job, slot, before):
    """The job's tables, and what the slot holds: lives are 1 for the job, 2 for any other."""
    life = {0: 0, job["generation"]: 1}.get(before["generation"], 2)
    commands = [f"table_clear dense_ingress.{table}" for table in ("jobs", "addresses")]
    if job["generation"] and job["enabled"]:
        commands.append(f"table_add dense_ingress.jobs set_job {job['index']} => {job['generation']} 1 "
                        f"{(1 << job['children']) - 1} {job['children']} {job['slots']} {job['lanes']} 0 {job['children']}")
    commands += [f"table_add dense_ingress.addresses mine {job['index']} {child} 0x0a000002 {20000 + child} =>"
                 for child in range(job["children"])]
    values = state(before, life)
    commands += [f"register_write dense_ingress.{name} {at} {value}"
                 for (name, at), value in zip(registers(slot), values)]
    switch.say(*commands)
    return values


def expected_after(case, values):
    """The registers after it, as the rules have it; None is anything: what no rule says."""
    after = case["after"]
    if after == case["before"]:
        return values
    life = 1
    want = state(after, life)
    for copy in (0, 1):
        at = 3 + copy * (3 + LANES)
        if not after["copies"][copy]["tag"] and after["copies"][copy] != case["before"]["copies"][copy]:
            want[at:at + 3 + LANES] = [None] * (3 + LANES)  # of the life before: R-SW-2, told by its life
        elif after["copies"][copy] == case["before"]["copies"][copy]:
            want[at:at + 3 + LANES] = values[at:at + 3 + LANES]
    return want


def multicast(switch, sizes):
    """Group n has n children; child c is replica c, all by the one port."""
    node = 0
    for children in sorted(sizes):
        switch.say(f"mc_mgrp_create {children}")
        for child in range(children):
            switch.say(f"mc_node_create {child} 0", f"mc_node_associate {children} {node}")
            node += 1


def play(switch, link, case):
    """What is wrong, or None."""
    job, children = case["job"], case["job"]["children"]
    values = set_up(switch, job, min(case["slot"], 100), case["before"])
    counts = switch.counts()
    answer = case.get("answer")
    to = range(children) if case["verdict"] == "MULTICAST" else [case["child"]] if answer else []
    link.send(frame(bytes.fromhex(case["packet"]), case["child"] if case["child"] < children else 0))
    got = receive(link, len(to))
    counted = [after - before for before, after in zip(counts, switch.counts())]
    if counted[VERDICTS.index(case["verdict"])] != 1 or sum(counted) != 1:
        return f"verdict {case['verdict']}, counted {dict((v, n) for v, n in zip(VERDICTS, counted) if n)}"
    if case["verdict"] == "MULTICAST":
        bare = case["after"]["bare"]
        want = {(child, answer[:36] + "0000" + answer[40:48] if bare >> child & 1 else answer) for child in to}
    else:
        want = {(child, answer) for child in to}
    if set(got) != want or sum(got.values()) != len(want):
        return f"answers {sorted(got.items())}, not {sorted(want)}"
    want = expected_after(case, values)
    have = switch.numbers(*(f"register_read dense_ingress.{name} {at}" for name, at in registers(min(case["slot"], 100))))
    differ = [(name, at, hex(h), hex(w)) for (name, at), h, w in zip(registers(min(case["slot"], 100)), have, want)
              if w is not None and h != w]
    return f"registers (name, index, is, not): {differ[:4]}" if differ or len(have) != len(want) else None


def main():
    cases, program, files = sys.argv[1], sys.argv[2], sys.argv[3:]
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing or os.geteuid():
        print("NOT HERE: bmv2 and p4c: " + (", ".join(missing) or "root, for a network namespace"))
        return 77
    if "P4_PLAY_INSIDE" not in os.environ:
        return subprocess.run(["unshare", "-n", sys.executable, *sys.argv], env=os.environ | {"P4_PLAY_INSIDE": "1"},
                              check=False).returncode
    for command in ("link set lo up", "link add sw0 type veth peer name host0", "link set sw0 up", "link set host0 up"):
        subprocess.run(["ip", *command.split()], check=True)
    lines = subprocess.run([cases, *files], check=True, capture_output=True, text=True).stdout.splitlines()
    todo = [json.loads(line) for line in lines]
    failed, reasons = 0, collections.Counter(case["reason"] for case in todo if "reason" in case)
    with tempfile.TemporaryDirectory() as folder:
        compiled = os.path.join(folder, "program.json")
        subprocess.run(["p4c-bm2-ss", "--Wdisable", "-o", compiled, program], check=True)
        link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
        link.bind(("host0", 0))
        link.settimeout(QUIET)
        switch = Switch(compiled, folder)
        try:
            switch.say(f"table_add dense_ingress.here mine 0x{SWITCH} {PORT} =>",
                       *(f"table_add dense_egress.children to 3 {c} => 0x02bb00000001 0x0a000002 {20000 + c}"
                         for c in range(32)))
            multicast(switch, {case["job"]["children"] for case in todo if "job" in case})
            for case in todo:
                wrong = None if "reason" in case else play(switch, link, case)
                failed += bool(wrong)
                if wrong:
                    print(f"{case['name']}: {wrong}")
        finally:
            switch.close()
    for reason, count in reasons.items():
        print(f"not applicable: {count}: {reason}")
    print(f"{len(todo) - sum(reasons.values()) - failed} passed, {failed} failed, {sum(reasons.values())} skipped")
    return failed > 0


sys.exit(main())
