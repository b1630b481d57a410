#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""every_collective.py LIBTALLY [RANKS...] - reduce, broadcast, gather and their kin through libtally, of every type. What
is right is put together here from what the ranks send; sums are those of tests/interop/lanes.py, to the bit.

Jobs of 1 to 5 ranks in local mode. Sizes are around those of packets; in place and not, a broadcast from memory that
cannot be written to; of equal parts, and of parts of their own sizes and places; blocking, and in a group; in parts of a
split; from two threads at once, on two communicators. every_collective.py --rank ... is one rank; the first process works out what is right.
Each type has one operation at each size, and three types have the largest size; with WHOLE=1 in the environment every type
has every operation at every size (minutes)."""
import collections
import ctypes
import mmap
import sys
import tempfile
import threading

import every_type
from every_type import chunks_of, data_of, ways

REDUCE, BROADCAST, ALLGATHER, REDUCE_SCATTER, GATHER, SCATTER, ALLTOALL = KINDS = range(7)
NAMES = "reduce broadcast allgather reduce_scatter gather scatter alltoall".split()
SIZES = [0, 1, 5, 359, 360, 361]
LARGE, LARGE_TYPES = 65537, (ways.UINT8, ways.FLOAT32, ways.FLOAT64)
HAS_ROOT, ROOT_SENDS, ROOT_RECEIVES = (REDUCE, BROADCAST, GATHER, SCATTER), (BROADCAST, SCATTER), (REDUCE, GATHER)
IS_SUM, SENDS_ALL, WANTS_ALL = (REDUCE, REDUCE_SCATTER), (REDUCE_SCATTER, SCATTER, ALLTOALL), (ALLGATHER, GATHER, ALLTOALL)
COUNTED = (ALLGATHER, REDUCE_SCATTER, GATHER, SCATTER, ALLTOALL)
UNTOUCHED = 0xA5
GAP = 2

Case = collections.namedtuple("Case", "number kind dtype op size turn is_counted is_in_place is_grouped")


def ops_of(dtype):
    if dtype >= 10:
        return [ways.MIN, ways.MAX, *every_type.BITS] if dtype == every_type.BOOL else [ways.SUM, ways.AVG, ways.PROD]
    pairs = [every_type.MINLOC, every_type.MAXLOC, every_type.USER] * every_type.IS_WHOLE
    return every_type.OPS + [*every_type.BITS] * (dtype not in every_type.CALM) + pairs


def cases():
    number = 0
    for kind in KINDS:
        for dtype in [*range(10), every_type.BOOL, every_type.COMPLEX64, every_type.COMPLEX128]:
            for size in SIZES + [LARGE] * (every_type.IS_WHOLE or dtype in LARGE_TYPES):
                number += 1
                ops = ops_of(dtype)
                for op in [0] if kind not in IS_SUM else ops if every_type.IS_WHOLE else [ops[number % len(ops)]]:
                    number += every_type.IS_WHOLE
                    is_pair = op in (every_type.MINLOC, every_type.MAXLOC)
                    is_counted = kind in COUNTED and number % 3 == 0 and not is_pair
                    yield Case(number, kind, dtype, op, size + size % 2 * is_pair, number // 2, is_counted,
                               number % 2 == 0 and kind != ALLTOALL, number % 4 < 2 or op == every_type.USER)


class Shape:
    """Who has what in a job of n ranks: elements of each rank's part, and where they are where all parts are."""

    def __init__(self, case, n):
        inner, elements = every_type.inner(case.dtype)
        self.case, self.width, self.root = case, ways.size_of(inner) * elements, case.turn % n
        self.counts = [(case.size + 7 * r) % (case.size + 1) if case.is_counted else case.size for r in range(n)]
        self.displs, self.span = self.layout(self.counts)

    def layout(self, counts):
        """Where the parts begin, and all end."""
        displs, at = [0] * len(counts), 0
        for r in range(len(counts))[::-1 if self.case.is_counted else 1]:
            displs[r], at = at, at + counts[r] + GAP * self.case.is_counted
        return displs, max((d + c for d, c in zip(displs, counts) if c), default=0)

    def sends(self, rank):
        return self.case.kind not in ROOT_SENDS or rank == self.root

    def receives(self, rank):
        return self.case.kind not in ROOT_RECEIVES or rank == self.root

    def one(self, rank):
        return self.counts[rank] if self.case.kind in COUNTED else self.case.size

    def options(self, rank):
        """counts and displs."""
        return self.counts, self.displs

    def received(self, rank):
        return self.span if self.case.kind in WANTS_ALL else self.one(rank)

    def taken(self, rank):
        """What it receives from whom: counts and displs."""
        return self.counts, self.displs

    def sent(self, rank):
        count = self.span if self.case.kind in SENDS_ALL else self.one(rank)
        return data_of(self.case.number, rank, self.case.dtype, count)

    def part(self, sender, r):
        """What the sender, which has all parts, has for rank r."""
        return self.cut(self.sent(sender), self.displs[r], self.counts[r])

    def cut(self, data, begin, count):
        return data[begin * self.width:(begin + count) * self.width]


class Rows(Shape):
    """An alltoall in which rank i has so many elements for rank j."""

    def __init__(self, case, n):
        super().__init__(case, n)
        self.rows = [[(case.size + 3 * i + 5 * j) % (case.size + 1) for j in range(n)] for i in range(n)]

    def column(self, rank):
        return [row[rank] for row in self.rows]

    def one(self, rank):
        return sum(self.rows[rank])

    def options(self, rank):
        return sum(self.rows, []), self.layout(self.rows[rank])[0] + self.layout(self.column(rank))[0]

    def received(self, rank):
        return self.layout(self.column(rank))[1]

    def taken(self, rank):
        return self.column(rank), self.layout(self.column(rank))[0]

    def sent(self, rank):
        return data_of(self.case.number, rank, self.case.dtype, self.layout(self.rows[rank])[1])

    def part(self, sender, r):
        return self.cut(self.sent(sender), self.layout(self.rows[sender])[0][r], self.rows[sender][r])


def shape_of(case, n):
    return (Rows if case.kind == ALLTOALL and case.is_counted else Shape)(case, n)


# ---- a rank ----

def read_only(data):
    """Memory that holds the data; who writes to it dies."""
    pages = mmap.mmap(-1, len(data) + 1)
    pages[:len(data)] = data
    memory = (ctypes.c_char * (len(data) + 1)).from_buffer(pages)
    if ctypes.CDLL(None).mprotect(ctypes.c_void_p(ctypes.addressof(memory)), ctypes.c_size_t(len(data) + 1), mmap.PROT_READ):
        raise SystemExit("mprotect fails")
    return memory


class Rank(every_type.Rank):
    def buffers(self, shape, rank):
        """send, recv and what holds recv: addresses, or None where the rank needs none."""
        case, data = shape.case, shape.sent(rank) if shape.sends(rank) else b""
        send = ctypes.create_string_buffer(data, len(data) + 1)
        size = shape.received(rank) * shape.width
        recv = ctypes.create_string_buffer(bytes([UNTOUCHED]) * (size + 1), size + 1)
        mine = shape.displs[rank] * shape.width
        at = [ctypes.addressof(send), ctypes.addressof(recv)]
        if case.is_in_place and shape.sends(rank) and shape.receives(rank):
            if case.kind == BROADCAST:
                send = read_only(data)
                at[0] = ctypes.addressof(send)
            if case.kind in (REDUCE, BROADCAST):
                recv, at[1] = send, at[0]
            elif case.kind in WANTS_ALL:
                recv[mine:mine + len(data)] = data
                at[0] = at[1] + mine
            elif case.kind in SENDS_ALL:
                at[1] = at[0] + mine
        keep = (send, recv)
        return [at[0] if shape.sends(rank) else None, at[1] if shape.receives(rank) else None], size, keep

    def call(self, comm, shape, send, recv, rank):
        case, lib = shape.case, self.lib
        arguments = [ctypes.c_void_p(send), ctypes.c_void_p(recv), ctypes.c_size_t(shape.one(rank)), case.dtype]
        arguments += [case.op] * (case.kind in IS_SUM) + [shape.root] * (case.kind in HAS_ROOT) + [comm]
        if not case.is_grouped and not case.is_counted:
            return self.ok(getattr(lib, "tally_" + NAMES[case.kind])(*arguments))
        options = every_type.Options(size=ctypes.sizeof(every_type.Options), name=b"part")
        if case.op == every_type.USER:
            options.reduce = ctypes.cast(every_type.reduce, ctypes.c_void_p)
        if case.is_counted:
            counts, displs = ((ctypes.c_size_t * len(some))(*some) for some in shape.options(rank))
            options.counts, options.displs = ctypes.addressof(counts), ctypes.addressof(displs)
        works = [ctypes.c_void_p() for _ in range(2)]
        ones = (ctypes.c_int32 * 3)(1, -2, rank)
        self.ok(lib.tally_group_start())
        self.ok(getattr(lib, "tally_i" + NAMES[case.kind])(*arguments, ctypes.byref(options), ctypes.byref(works[0])))
        self.ok(lib.tally_iallreduce(ones, ones, ctypes.c_size_t(3), ways.INT32, ways.SUM, comm, None,
                                     ctypes.byref(works[1])))
        self.ok(lib.tally_group_end())
        for work in works:
            self.ok(lib.tally_wait(ctypes.byref(work), -1))
        n = len(shape.counts)
        if list(ones) != [n, -2 * n, n * (n - 1) // 2]:
            raise SystemExit(f"{case}: the allreduce beside it is wrong: {list(ones)}")
        return None

    def run(self, comm, name, some):
        rank, n = self.lib.tally_comm_rank(comm), self.lib.tally_comm_size(comm)
        with open(f"{self.out}/{name}.{rank}", "wb") as file:
            for case in some:
                shape = shape_of(case, n)
                (send, recv), size, keep = self.buffers(shape, rank)
                before = keep[0].raw
                self.call(comm, shape, send, recv, rank)
                got = ctypes.string_at(recv, size) if recv else b""
                file.write(got)
                at = shape.displs[rank] * shape.width
                if keep[0] is not keep[1] and recv and recv != ctypes.addressof(keep[1]):  # inside send: only that changes
                    before = before[:at] + got + before[at + size:]
                if keep[0] is not keep[1] and keep[0].raw != before:
                    raise SystemExit(f"{case}: what was sent has changed")


def rank_main(library, job, rank, size, out):
    me = Rank(library, job, int(rank), int(size), out)
    every = list(cases())
    other, part = me.split(0), me.split(int(rank) % 2)
    thread = threading.Thread(target=me.run, args=(other, "thread", every[1::2]))
    thread.start()
    me.run(me.comm, "main", every[::2])
    thread.join()
    me.run(part, f"part{int(rank) % 2}", every[::5])
    with open(f"{out}/stats.{rank}", "w", encoding="ascii") as file:
        file.write(str(me.stats().lanes))
    for comm in (part, other, me.comm):
        me.ok(me.lib.tally_comm_finalize(comm))
        me.lib.tally_comm_destroy(comm)


# ---- what is right ----

def sums(shape, n, packet):
    """(first byte, what the bytes may be) of the vector that is summed, some of it if it is long."""
    case, width = shape.case, shape.width
    datas = [shape.sent(rank) for rank in range(n)]
    if case.kind == REDUCE_SCATTER:
        datas = [b"".join(shape.part(sender, r) for r in range(n)) for sender in range(n)]
    dtype, elements = every_type.inner(case.dtype)
    width //= elements
    count = len(datas[0]) // width
    if every_type.is_gathered(case.dtype, case.op):
        for first in chunks_of(count, 360):
            parts = [data[first * width:(first + 360) * width] for data in datas]
            yield first * width, [every_type.gathered(case.dtype, case.op, parts)]
        return
    way = ways.Lanes(dtype, case.op, count, n, packet)
    full = packet // way.shape[1] * way.shape[0]
    for first in chunks_of(count, full):
        parts = [(1, data[first * width:(first + full) * width]) for data in datas]
        elements = [x for _, part in parts for x in way.elements(part)]
        yield first * width, [way.result(parts, 0)[0]] if way.is_raw else way.results(parts, elements)


def inside(pieces, first, last):
    """What of the pieces lies in these bytes, counted from `first`."""
    for at, datas in pieces:
        low, high = max(at, first), min(at + len(datas[0]), last)
        if low < high:
            yield low - first, [data[low - at:high - at] for data in datas]


def right(shape, rank, n, summed):
    """(offset, what the bytes may be) of what the rank gets."""
    case, width = shape.case, shape.width
    if case.kind == REDUCE:
        yield from summed
    elif case.kind == REDUCE_SCATTER:
        first = sum(shape.counts[:rank]) * width
        yield from inside(summed, first, first + shape.counts[rank] * width)
    elif case.kind == BROADCAST:
        yield 0, [shape.sent(shape.root)]
    elif case.kind == SCATTER:
        yield 0, [shape.part(shape.root, rank)]
    else:
        counts, displs = shape.taken(rank)
        for r in range(n):
            yield displs[r] * width, [shape.part(r, rank) if case.kind == ALLTOALL else shape.sent(r)]
        for r in range(n if case.is_counted else 0):
            gap = (displs[r] + counts[r]) * width
            if gap < shape.received(rank) * width:
                yield gap, [bytes([UNTOUCHED]) * GAP * width]


def check(out, name, some, n, packet):
    """How many bytes were checked."""
    files = [open(f"{out}/{name}.{rank}", "rb").read() for rank in range(n)]
    at, checked = [0] * n, 0
    for case in some:
        shape = shape_of(case, n)
        summed = list(sums(shape, n, packet)) if case.kind in IS_SUM else []
        for rank in filter(shape.receives, range(n)):
            for offset, others in right(shape, rank, n, summed):
                wanted = others[0]
                found = files[rank][at[rank] + offset:at[rank] + offset + len(wanted)]
                checked += len(wanted)
                if found not in others:
                    i = next((i for i, (a, b) in enumerate(zip(found, wanted)) if a != b), len(found))
                    raise SystemExit(f"{name}, {n} ranks, rank {rank}: {NAMES[case.kind]}, {case}: byte {offset + i} is "
                                     f"{found[i:i + 8].hex()}, not {wanted[i:i + 8].hex()}")
            at[rank] += shape.received(rank) * shape.width
    if at != [len(file) for file in files]:
        raise SystemExit(f"{name}, {n} ranks: {[len(file) for file in files]} bytes came, not {at}")
    return checked


def job(library, size):
    every = list(cases())
    with tempfile.TemporaryDirectory() as out:
        packet = every_type.play(__file__, library, size, out)
        total = check(out, "main", every[::2], size, packet) + check(out, "thread", every[1::2], size, packet)
        for half in range(2):
            n = len(range(half, size, 2))
            total += check(out, f"part{half}", every[::5], n, packet) if n else 0
        print(f"{size} ranks: {len(every)} cases, {total} bytes right")


if __name__ == "__main__":
    if sys.argv[1] == "--rank":
        rank_main(*sys.argv[2:])
    else:
        for number_of_ranks in map(int, sys.argv[2:] or range(1, 6)):
            job(sys.argv[1], number_of_ranks)
