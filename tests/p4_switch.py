# SPDX-License-Identifier: Apache-2.0
"""p4_switch.py - a running bmv2: what is asked of it in its own language (Thrift's binary protocol, multiplexed), as
many questions at once as one likes. No Thrift library is needed."""
import os
import socket
import struct
import subprocess
import time

BOOL, I32, I64, STRING, STRUCT, LIST = 2, 8, 10, 11, 12, 15
WIDTHS = {BOOL: "b", 3: "b", 4: "d", 6: "h", I32: "i", I64: "q"}


class Long(int):
    """A number of 64 bits."""


def value(one):
    """(type, bytes): a dict is a struct."""
    if isinstance(one, bool):
        return BOOL, struct.pack("!b", one)
    if isinstance(one, Long):
        return I64, struct.pack("!Q", one)
    if isinstance(one, int):
        return I32, struct.pack("!i", one)
    if isinstance(one, (str, bytes)):
        data = one.encode() if isinstance(one, str) else one
        return STRING, struct.pack("!i", len(data)) + data
    if isinstance(one, dict):
        return STRUCT, fields(one)
    items = [value(item) for item in one]
    return LIST, struct.pack("!bi", items[0][0] if items else STRING, len(items)) + b"".join(data for _, data in items)


def fields(those):
    out = b""
    for number, one in those.items():
        kind, data = value(one)
        out += struct.pack("!bh", kind, number) + data
    return out + b"\0"


def call(method, *arguments):
    name = method.encode()
    return struct.pack("!Ii", 0x80010001, len(name)) + name + b"\0\0\0\0" + fields(dict(enumerate(arguments, 1)))


CONNECTION_MAX = 50 << 20  # Thrift closes a connection that has brought it 100 MiB


class Switch:
    """simple_switch with this program, ports 0 and 64 of which are the network devices `port` and `cpu`."""

    def __init__(self, program, folder, port, cpu):
        number = 9777  # its namespace is its own
        with open(os.path.join(folder, "log"), "wb") as log:
            self.child = subprocess.Popen(["simple_switch", "-i", f"0@{port}", "-i", f"64@{cpu}", "--thrift-port", str(number), "-L", "off",
                                           program], stdout=log, stderr=log)
        self.folder, self.number = folder, number
        self.connect()

    def connect(self):
        for _ in range(200):
            try:
                self.socket = socket.create_connection(("127.0.0.1", self.number))
                break
            except ConnectionRefusedError:
                time.sleep(0.05)
        else:
            raise RuntimeError("simple_switch does not answer within 10 s: " + " ".join(open(f"{self.folder}/log")))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.data, self.asked = b"", 0

    def take(self, form):
        size = struct.calcsize(form)
        while len(self.data) < size:
            more = self.socket.recv(1 << 16)
            if not more:
                raise RuntimeError("simple_switch has ended")
            self.data += more
        got, self.data = struct.unpack(form, self.data[:size]), self.data[size:]
        return got if len(got) > 1 else got[0]

    def read(self, kind):
        if kind in WIDTHS:
            return self.take("!" + WIDTHS[kind])
        if kind == STRING:
            return self.take(f"!{self.take('!i')}s")
        if kind == LIST:
            of, count = self.take("!bi")
            return [self.read(of) for _ in range(count)]
        those = {}
        while of := self.take("!b"):
            number = self.take("!h")
            those[number] = self.read(of)
        return those

    def ask(self, *calls):
        """What is answered to each of these call()s."""
        data = b"".join(calls)
        if self.asked + len(data) > CONNECTION_MAX:
            self.socket.close()
            self.connect()
        self.asked += len(data)
        self.socket.sendall(data)
        return [self.answer(one) for one in calls]

    def answer(self, one):
        kind = self.take("!I")
        self.read(STRING)
        self.take("!i")
        said = self.read(STRUCT)
        if kind & 0xff != 2 or set(said) - {0}:
            raise RuntimeError(f"simple_switch refuses {one!r}: {said}")
        return said.get(0)

    def longs(self, *calls):
        """The same, if all are calls of one method that answers with a number of 64 bits: quicker."""
        self.socket.sendall(b"".join(calls))
        first = self.take("!I")
        name = self.read(STRING)
        size = 4 + 4 + len(name) + 4 + 3 + 8 + 1
        rest = self.take(f"!{size * len(calls) - 8 - len(name)}s")
        whole = struct.pack("!Ii", first, len(name)) + name + rest
        tail = struct.Struct("!bhQb")
        got = [tail.unpack_from(whole, (i + 1) * size - tail.size) for i in range(len(calls))]
        if any(one[:2] != (I64, 0) for one in got):
            raise RuntimeError("simple_switch refuses to read registers")
        return [one[2] for one in got]

    def close(self):
        self.child.kill()
        self.child.wait()
