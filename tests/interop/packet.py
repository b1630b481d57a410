# SPDX-License-Identifier: Apache-2.0
"""packet.py - what a packet looks like, and what a chunk is called: R-WIRE, R-MAP-6."""
import collections
import struct

HEADER = struct.Struct(">BBHIIHHHHI")  # R-WIRE-2
NONCE_BYTES = 16
UPDATE, PROBE, RESULT, HELD, ACK, CONFIRM, NEED, HELLO, WELCOME = range(1, 10)  # R-WIRE-3
LANES_MAX, HELLO_LANES_MIN = 16368, 8  # R-WIRE-4
DATA, EXPONENT, DETAIL, GUESS = range(4)  # R-WIRE-5: bits 0-1; bits 2-3 are ADD, 0, in every allreduce
NONFINITE, RANGE, RESENT, HINT = 1 << 5, 1 << 6, 1 << 7, 1 << 7
STICKY, IDENTITY, BARE = NONFINITE | RANGE, 0x0F, 0x10
UNKNOWN = 0xFFFF  # R-WIRE-10
MASK32, MASK64 = (1 << 32) - 1, (1 << 64) - 1

Packet = collections.namedtuple(
    "Packet", "type flags job generation seq slot child exponent lanes tag body")


def build(kind, shard, seq, slot=0, flags=0, exponent=0, tag=0, body=b""):
    """A datagram of the worker that `shard` (of a GRANT) makes of us."""
    return HEADER.pack(1 << 4 | kind, flags, shard.job, shard.generation, seq, slot, shard.child,
                       exponent, len(body) // 4, tag) + body


def parse(datagram):
    """The packet, or None if R-WIRE-7 finds fault with it."""
    if len(datagram) < HEADER.size:
        return None
    first, *fields = HEADER.unpack_from(datagram)
    packet = Packet(first & 15, *fields, datagram[HEADER.size:])
    least = HELLO_LANES_MIN if packet.type in (HELLO, WELCOME) else 0
    most = LANES_MAX if packet.type in (UPDATE, RESULT, HELLO, WELCOME) else 0
    if packet.type in (UPDATE, RESULT) and packet.flags & 3 == EXPONENT:
        most = 0
    if first >> 4 != 1 or not UPDATE <= packet.type <= WELCOME:
        return None
    if packet.lanes % 4 or not least <= packet.lanes <= most:
        return None
    if len(packet.body) != 4 * packet.lanes:
        return None
    if packet.type == RESULT and packet.flags & BARE:
        return None
    return packet


def lanes_bytes(lanes):
    """R-WIRE-6."""
    lanes = lanes + [0] * (-len(lanes) % 4)
    return struct.pack(f"<{len(lanes)}i", *lanes)


def lanes_of(body):
    return struct.unpack(f"<{len(body) // 4}i", body)


def fnv1a64(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & MASK64
    return value


def splitmix64(state):
    """The first output of the generator with this state."""
    z = (state + 0x9E3779B97F4A7C15) & MASK64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK64
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK64
    return z ^ z >> 31


def descriptor_hash(number, kind, dtype, op, count, root, name):
    """R-MAP-6."""
    return fnv1a64(struct.pack("<QIIIQI", number, kind, dtype, op, count, root) + name.encode())


def tag_of(descriptor, chunk):
    return splitmix64(descriptor + chunk & MASK64) >> 32
