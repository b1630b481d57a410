#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""every_type.py LIBTALLY [RANKS...] - every type and operation through libtally, against tests/interop/lanes.py, which
works out each result to the bit from docs/protocol.md alone, with fractions.

Jobs of 1 to 5 ranks in local mode. Sizes are around those of packets; in place and not; in a group; in parts of a
split; from two threads at once, on two communicators. Of the largest size a few packets are checked, of all others
every element, and on every rank. With WHOLE=1 in the environment all have every size. every_type.py --rank ... is one
rank; the first process works out what is right.
"""
import ctypes
from fractions import Fraction
import functools
import math
import os
import random
import struct
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "interop"))
import lanes as ways  # noqa: E402

IS_WHOLE = os.environ.get("WHOLE") == "1"
SIZES = [0, 1, 359, 360, 361, 65537]
PAIRS = [(1, 359), (360, 361)]  # in a group
FIXED, EXPONENT = (720, 5), 127  # of float32 with a fixed scale, for elements below 2
OPS = [ways.SUM, ways.AVG, ways.MIN, ways.MAX, ways.PROD]
BITS = {5: "band", 6: "bor", 7: "bxor", 8: "land", 9: "lor", 10: "lxor"}  # of integers
MINLOC, MAXLOC, USER = 11, 12, 13
BOOL, COMPLEX64, COMPLEX128 = 12, 13, 14
INNER = {BOOL: (ways.UINT8, 1), COMPLEX64: (ways.FLOAT32, 2), COMPLEX128: (ways.FLOAT64, 2)}  # what an element is
# Bits of an element that are kept, and that are set: a few binades around 1.
CALM = {ways.FLOAT16: (0x87FF, 0x3800), ways.FLOAT32: (0x83FFFFFF, 0x3C000000),
        ways.FLOAT64: (0x807FFFFFFFFFFFFF, 0x3F80000000000000), ways.BFLOAT16: (0x83FF, 0x3C00)}


class Stats(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in
                "size operations elements out in_ resent ignored probes exponents details express bulk saturated "
                "bytes_out bytes_in bad".split()] + [(name, ctypes.c_uint32) for name in
                                                     "window srtt lanes shards slots run".split()]


class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("stream", ctypes.c_int),
                ("deadline_ms", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("counts", ctypes.c_void_p),
                ("displs", ctypes.c_void_p), ("reduce", ctypes.c_void_p), ("reduce_ctx", ctypes.c_void_p),
                ("residual", ctypes.c_void_p), ("scale", ctypes.c_double)]


class CommOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("aggregator", ctypes.c_char_p)] + [(name, ctypes.c_uint32) for name in (
        "local_size init_timeout_s window_packets poll_count flags latency_slots latency_window deadline_ms").split()] + [
            ("key", ctypes.c_char_p), ("interrupted", ctypes.c_void_p), ("interrupted_ctx", ctypes.c_void_p)]


FLAGS = {ways.FREE: 0, ways.HALF: 2, ways.EXACT: 4}  # of tally.h


def form_of(dtype, op, sizes, is_part=False):
    """How floats of some groups are to travel; those of the parts of a split, if they say nothing, exactly."""
    if inner(dtype)[0] not in CALM or op not in (ways.SUM, ways.AVG):
        return ways.FREE
    if sizes == FIXED:
        return ways.FIXED
    if is_part and (len(sizes) == 1 or sizes == PAIRS[1] and dtype != ways.FLOAT32):
        return ways.EXACT
    if len(sizes) == 1:
        return ways.FREE
    return ways.HALF if dtype == ways.FLOAT32 and sizes == PAIRS[1] else ways.EXACT if sizes == PAIRS[0] else ways.FREE


def inner(dtype):
    return INNER.get(dtype, (dtype, 1))


def cases():
    """(type, operation, sizes): several sizes are a group."""
    for dtype in range(10):
        for op in OPS + [*BITS] * (dtype not in CALM):
            some = [(size,) for size in SIZES] + PAIRS
            for sizes in some[1::3] if is_gathered(dtype, op) and not IS_WHOLE else some:
                yield dtype, op, sizes
            if dtype == ways.FLOAT32 and op in (ways.SUM, ways.AVG):
                yield from [(dtype, op, FIXED)] * 3
        for op in (MINLOC, MAXLOC):  # of pairs
            yield from ((dtype, op, (2,)), (dtype, op, (360, 718)))
            yield from ((dtype, op, (size + size % 2,)) for size in SIZES * IS_WHOLE)
        yield dtype, USER, (361, 5)
        yield from ((dtype, USER, (size, 0)) for size in SIZES * IS_WHOLE)
    for dtype, ops in ((BOOL, [ways.MIN, ways.MAX, *BITS]), (COMPLEX64, (ways.SUM, ways.AVG, ways.PROD)),
                       (COMPLEX128, (ways.SUM, ways.AVG, ways.PROD))):
        for op in ops:
            yield from ((dtype, op, (1,)), (dtype, op, (361,)), (dtype, op, PAIRS[1]))
            yield from ((dtype, op, (size,)) for size in SIZES * IS_WHOLE)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
def reduce(send, inout, count, dtype, ctx):
    """TALLY_USER: 5 a - b of bytes, in which it matters who comes first."""
    size = count * ways.size_of(dtype)
    own = (ctypes.c_uint8 * size).from_address(inout)
    own[:] = user(ctypes.string_at(send, size), bytes(own))


def user(a, b):
    return bytes((5 * x - y) % 256 for x, y in zip(a, b))


def data_of(number, rank, dtype, count):
    """Of both signs, and different on all ranks: any bits, or calm floats, or small integers."""
    dtype, elements = inner(dtype)
    count *= elements
    width, source = ways.size_of(dtype), random.Random(f"{number} {rank}")
    raw = source.randbytes(count * width)
    kind = number % 3
    if dtype in CALM and kind:
        keep, put = (int.from_bytes(bits.to_bytes(width, "little") * count, "little") for bits in CALM[dtype])
        raw = (int.from_bytes(raw, "little") & keep | put).to_bytes(count * width, "little")
    elif kind and count < 1000:
        low, high = ways.RANGES.get(dtype, (0, 0))
        code = ways.CODES[dtype]
        raw = b"".join(struct.pack("<" + code, source.randrange(low // 16, high // 16 + 1)) for _ in range(count))
    return raw


# ---- a rank ----

class Rank:
    def __init__(self, library, job, rank, size, out):
        self.lib, self.rank, self.out = ctypes.CDLL(library), rank, out
        self.lib.tally_get_last_error.restype = ctypes.c_char_p
        self.comm = ctypes.c_void_p()
        self.ok(self.lib.tally_comm_init(ctypes.byref(self.comm), job.encode(), size, rank, None))

    def ok(self, result):
        if result:
            raise SystemExit(f"rank {self.rank}: {result}: {self.lib.tally_get_last_error(None).decode()}")

    def split(self, color, flags=0):
        part, options = ctypes.c_void_p(), CommOptions(size=ctypes.sizeof(CommOptions), flags=flags)
        self.ok(self.lib.tally_comm_split(self.comm, color, self.rank, ctypes.byref(options), ctypes.byref(part)))
        return part

    def group(self, comm, buffers, dtype, op):
        works = [ctypes.c_void_p() for _ in buffers]
        form = form_of(dtype, op, tuple(b[2] for b in buffers))
        options = Options(size=ctypes.sizeof(Options), flags=FLAGS.get(form, 0))
        if form == ways.FIXED:
            options.scale = 2.0**(126 + 31 - ways.log2(self.lib.tally_comm_size(comm)) - EXPONENT)
        if op == USER:
            options.reduce = ctypes.cast(reduce, ctypes.c_void_p)
        self.ok(self.lib.tally_group_start())
        for (send, recv, count), work in zip(buffers, works):
            self.ok(self.lib.tally_iallreduce(send, recv, ctypes.c_size_t(count), dtype, op, comm,
                                              ctypes.byref(options), ctypes.byref(work)))
        self.ok(self.lib.tally_group_end())
        for work in works:
            self.ok(self.lib.tally_wait(ctypes.byref(work), -1))

    def run(self, comm, name, some):
        """Each case; what has come, one after the other, in a file."""
        with open(f"{self.out}/{name}.{self.rank}", "wb") as file:
            for number, (dtype, op, sizes) in some:
                sends = [ctypes.create_string_buffer(data_of(number * 10 + i, self.rank, dtype, size))
                         for i, size in enumerate(sizes)]  # each with a 0 behind it
                recvs = [send if number % 2 else ctypes.create_string_buffer(len(send)) for send in sends]
                if len(sizes) > 1:
                    self.group(comm, list(zip(sends, recvs, sizes)), dtype, op)
                else:
                    self.ok(self.lib.tally_allreduce(sends[0], recvs[0], ctypes.c_size_t(sizes[0]), dtype, op, comm))
                for recv in recvs:
                    file.write(recv.raw[:-1])

    def stats(self):
        stats = Stats(size=ctypes.sizeof(Stats))
        self.ok(self.lib.tally_comm_get_stats(self.comm, ctypes.byref(stats)))
        return stats


def rank_main(library, job, rank, size, out):
    me = Rank(library, job, int(rank), int(size), out)
    every = list(enumerate(cases()))
    other, part = me.split(0), me.split(int(rank) % 2, FLAGS[ways.EXACT])
    thread = threading.Thread(target=me.run, args=(other, "thread", every[1::2]))
    thread.start()
    me.run(me.comm, "main", every[::2])
    thread.join()
    me.run(part, "part", every[::5])
    stats = me.stats()
    with open(f"{out}/stats.{rank}", "w", encoding="ascii") as file:
        file.write(str(stats.lanes))
    for comm in (part, other, me.comm):
        me.ok(me.lib.tally_comm_finalize(comm))
        me.lib.tally_comm_destroy(comm)


# ---- what is right ----

def is_gathered(dtype, op):
    """Lanes cannot do it: each rank works it out by itself."""
    return (op in BITS or op in (ways.PROD, MINLOC, MAXLOC, USER) or dtype == BOOL or
            (op in (ways.MIN, ways.MAX) and ways.size_of(dtype) == 8))


def whole(dtype, op, column):
    """Of integers, in the order of the ranks."""
    bits = 8 * ways.size_of(dtype)
    first, *others = column
    if BITS.get(op, "")[:1] == "l":
        first = int(first != 0)
    for x in others:
        first = {ways.PROD: first * x, ways.MIN: min(first, x), ways.MAX: max(first, x), 5: first & x, 6: first | x,
                 7: first ^ x, 8: int(first and x != 0), 9: int(first or x != 0), 10: first ^ (x != 0)}[op]
    return first % 2**bits if ways.RANGES[dtype][0] == 0 else ways.wrap(first, bits)


def floating(dtype, op, column):
    """As float64, rounded once; the bits."""
    form = ways.FLOATS[dtype]
    first, *others = (x if isinstance(x, float) else float(x) for x in column)
    for x in others:
        if op == ways.PROD:
            first *= x
        elif first != first or x != x:
            first = ways.NAN
        else:  # -0 is less than +0
            first = (min if op == ways.MIN else max)(first, x, key=lambda y: (y, math.copysign(1, y)))
    if first == 0:
        return (math.copysign(1, first) < 0) << 8 * ways.size_of(dtype) - 1
    return form.bits(Fraction(first) if abs(first) < ways.INF else first)


def signed(form, bits):
    """A number with the sign of its zero."""
    number = form.number(bits)
    return math.copysign(0.0, -1 if bits >> form.fraction + form.exponent else 1) if number == 0 else number


def located(dtype, op, datas):
    """Of pairs: those with the best value; of equal ones the least index; a NaN is the best of all."""
    code = "<" + ways.CODES[dtype]

    def key(bits):
        number = ways.FLOATS[dtype].number(bits) if dtype in CALM else bits
        return (number != number, 0 if number != number else number)

    def rank(pair):
        (is_nan, value), index = key(pair[0]), key(pair[1])
        return is_nan, value if op == MAXLOC else -value, (not index[0], -index[1])

    numbers = [[bits for bits, in struct.iter_unpack(code, data)] for data in datas]
    columns = zip(*(zip(row[::2], row[1::2]) for row in numbers))
    return b"".join(struct.pack(code, bits) for column in columns for bits in max(column, key=rank))


def multiplied(dtype, datas):
    """Complex numbers, as float64."""
    if len(datas) == 1:
        return datas[0]
    code = "<" + {COMPLEX64: "f", COMPLEX128: "d"}[dtype]
    form, bits = ways.FLOATS[inner(dtype)[0]], "<" + ways.CODES[inner(dtype)[0]]
    rows = [[x for x, in struct.iter_unpack(code, data)] for data in datas]
    result = b""
    for column in zip(*(zip(row[::2], row[1::2]) for row in rows)):
        (a, b), *others = column
        for c, d in others:
            a, b = a * c - b * d, a * d + b * c
        for x in (a, b):
            sign = (math.copysign(1, x) < 0) << form.fraction + form.exponent
            result += struct.pack(bits, sign if x == 0 else form.bits(Fraction(x) if abs(x) < ways.INF else x))
    return result


def gathered(dtype, op, datas):
    """Bytes of the result."""
    if op == USER:
        return functools.reduce(lambda b, a: user(a, b), datas[::-1])
    if op in (MINLOC, MAXLOC):
        return located(dtype, op, datas)
    if dtype in (COMPLEX64, COMPLEX128):
        return multiplied(dtype, datas)
    if dtype == BOOL:
        datas, dtype = [bytes(int(x != 0) for x in data) for data in datas], ways.UINT8
    if len(datas) == 1 and BITS.get(op, "")[:1] != "l":
        return datas[0]  # the element itself, bit for bit
    code = "<" + ways.CODES[dtype]
    columns = zip(*([bits for bits, in struct.iter_unpack(code, data)] for data in datas))
    if dtype in CALM:
        form = ways.FLOATS[dtype]
        return b"".join(struct.pack(code, floating(dtype, op, [signed(form, bits) for bits in column]))
                        for column in columns)
    return b"".join(struct.pack(code, whole(dtype, op, column)) for column in columns)


def chunks_of(count, full):
    """Where those begin that are checked."""
    starts = range(0, count, full)
    return starts if count < 1000 else sorted({starts[0], starts[len(starts) // 2], starts[-2], starts[-1]})


def right(number, case, ranks, packet, is_part):
    """(offset, what the bytes may be) of each part that is checked."""
    dtype, op, sizes = case
    count, width = sum(sizes) * inner(dtype)[1], ways.size_of(inner(dtype)[0])
    datas = [b"".join(data_of(number * 10 + i, rank, dtype, size) for i, size in enumerate(sizes)) for rank in ranks]
    if is_gathered(dtype, op):
        for first in chunks_of(count, 360):
            part = slice(first * width, (first + 360) * width)
            yield first * width, [gathered(dtype, op, [data[part] for data in datas])]
        return
    form = form_of(dtype, op, sizes, is_part)
    way = ways.Lanes(inner(dtype)[0], op, count, len(ranks), packet, form, EXPONENT)
    full = packet // way.shape[1] * way.shape[0]
    for first in chunks_of(count, full):
        parts = [(1, data[first * width:(first + full) * width]) for data in datas]
        elements = [x for _, part in parts for x in way.elements(part)]
        yield first * width, [way.result(parts, 0)[0]] if way.is_raw else way.results(parts, elements)


def check(out, name, some, ranks, packet):
    """How many elements were checked."""
    files = [open(f"{out}/{name}.{rank}", "rb").read() for rank in ranks]
    at = checked = 0
    for number, case in some:
        width = ways.size_of(inner(case[0])[0])
        for offset, wanted in right(number, case, ranks, packet, name == "part"):
            others, wanted = wanted, wanted[0]
            checked += len(wanted) // width
            for rank, file in zip(ranks, files):
                found = file[at + offset:at + offset + len(wanted)]
                if found not in others:
                    i = next(i for i in range(0, len(wanted), width) if found[i:i + width] != wanted[i:i + width])
                    raise SystemExit(f"{name}, {len(ranks)} ranks, rank {rank}: type {case[0]} op {case[1]} sizes "
                                     f"{case[2]}, element {(offset + i) // width}: {found[i:i + width].hex()}, not "
                                     f"{wanted[i:i + width].hex()}")
        begin, at = at, at + sum(case[2]) * inner(case[0])[1] * width
        if any(file[begin:at] != files[0][begin:at] for file in files):
            raise SystemExit(f"{name}: {case}: not the same bits on all ranks")
    return checked


def play(script, library, size, out):
    """A job whose ranks are this script's; the lanes of its packets."""
    environment = dict(os.environ, TALLY_AGGREGATOR="local", TALLY_LOCAL_SIZE=str(size))
    name = f"every-{os.getpid()}-{size}"
    ranks = [subprocess.Popen([sys.executable, script, "--rank", library, name, str(rank), str(size), out],
                              env=environment) for rank in range(size)]
    if any([rank.wait(timeout=240) for rank in ranks]):
        raise SystemExit(f"a job of {size} ranks has failed")
    with open(f"{out}/stats.0", encoding="ascii") as file:
        return int(file.read())


def job(library, size):
    every = list(enumerate(cases()))
    with tempfile.TemporaryDirectory() as out:
        packet = play(__file__, library, size, out)
        all_ranks, total = list(range(size)), 0
        for which, some in (("main", every[::2]), ("thread", every[1::2])):
            total += check(out, which, some, all_ranks, packet)
        for ranks in (all_ranks[::2], all_ranks[1::2]):
            total += check(out, "part", every[::5], ranks, packet) if ranks else 0
        print(f"{size} ranks: {len(every)} cases, {total} elements right to the bit")


if __name__ == "__main__":
    if sys.argv[1] == "--rank":
        rank_main(*sys.argv[2:])
    else:
        for number_of_ranks in map(int, sys.argv[2:] or range(1, 6)):
            job(sys.argv[1], number_of_ranks)
