#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the Python package makes of arrays, in jobs of several ranks; what is right is worked out by numpy."""
import time

import jobs

jobs.need("numpy", "python3-numpy (scripts/deps.sh test)")
import numpy  # noqa: E402

import tally  # noqa: E402

WHOLE = [numpy.int8, numpy.uint8, numpy.int32, numpy.uint32, numpy.int64, numpy.uint64]
FLOATS = {numpy.float16: 2e-2, numpy.float32: 1e-5, numpy.float64: 1e-13}  # and how far they may be from numpy's, of the largest
COMPLEX = {numpy.complex64: 1e-5, numpy.complex128: 1e-13}
BY_NUMPY = {tally.Op.SUM: numpy.add, tally.Op.PROD: numpy.multiply, tally.Op.MAX: numpy.maximum, tally.Op.MIN: numpy.minimum,
            tally.Op.BAND: numpy.bitwise_and, tally.Op.BOR: numpy.bitwise_or, tally.Op.BXOR: numpy.bitwise_xor}


def data(dtype, count, rank):
    """Of both signs, where the type has them, and different on each rank."""
    draw = numpy.random.default_rng([count, rank])
    if numpy.issubdtype(dtype, numpy.unsignedinteger):
        return draw.integers(0, 30, count).astype(dtype)
    if numpy.issubdtype(dtype, numpy.integer):
        return draw.integers(-20, 20, count).astype(dtype)
    if numpy.issubdtype(dtype, numpy.complexfloating):
        return (draw.standard_normal(count) + 1j * draw.standard_normal(count)).astype(dtype)
    return draw.standard_normal(count).astype(dtype)


def expected(op, dtype, count, size):
    """What numpy makes of all ranks' data, in the type or, for floats, a better one."""
    wide = dtype if dtype in WHOLE else numpy.complex128 if dtype in COMPLEX else numpy.float64
    parts = [data(dtype, count, r).astype(wide) for r in range(size)]
    if op == tally.AVG:
        total = sum(part.astype(numpy.int64) if dtype in WHOLE else part for part in parts)
        return numpy.trunc(total / size).astype(wide) if dtype in WHOLE else total / size
    result = parts[0]
    for part in parts[1:]:
        result = BY_NUMPY[op](result, part)
    return result


def check(got, right, dtype):
    assert got.dtype == dtype, (got.dtype, dtype)
    near = {**FLOATS, **COMPLEX}.get(dtype)
    if near is None or not right.size:
        numpy.testing.assert_array_equal(got, right.astype(dtype))
    else:
        worst, largest = numpy.abs(got.astype(right.dtype) - right).max(), max(1, numpy.abs(right).max())
        assert worst <= near * largest, (worst, near, largest)


def every_sum(rank, size):
    with tally.init() as comm:
        assert (comm.rank, comm.size) == (rank, size)
        for dtype in [*WHOLE, *FLOATS, *COMPLEX]:
            ops = [tally.SUM, tally.AVG, tally.PROD]
            ops += [tally.MIN, tally.MAX] if dtype not in COMPLEX else []
            ops += [tally.Op.BAND, tally.Op.BOR, tally.Op.BXOR] if dtype in WHOLE else []
            for op in ops:
                for count in (0, 1, 361, 5000):
                    mine, right = data(dtype, count, rank), expected(op, dtype, count, size)
                    got = comm.allreduce(mine, op)
                    check(got, right, dtype)
                    numpy.testing.assert_array_equal(mine, data(dtype, count, rank))
                    assert comm.allreduce(mine, op, out=mine) is mine
                    check(mine, right, dtype)
        flags = numpy.array([rank == 0, True, False])
        assert comm.allreduce(flags, tally.MAX).tolist() == [True, True, False]


def every_collective(rank, size):
    with tally.init() as comm:
        root = size - 1
        for dtype in (numpy.uint8, numpy.float32, numpy.complex128):
            shape = (2 * size, 3)
            parts = [data(dtype, 6 * size, r).reshape(shape) for r in range(size)]
            mine = parts[rank]
            kept = comm.reduce(mine, root)
            assert (kept is None) == (rank != root)
            if rank == root:
                check(kept, expected(tally.SUM, dtype, 6 * size, size).reshape(shape), dtype)
            box = mine.copy()
            assert comm.broadcast(box, root) is box
            numpy.testing.assert_array_equal(box, parts[root])
            numpy.testing.assert_array_equal(comm.allgather(mine), numpy.stack(parts))
            mean = expected(tally.AVG, dtype, 6 * size, size).reshape(shape)
            check(comm.reduce_scatter(mine, tally.AVG), mean[2 * rank:2 * rank + 2], dtype)
            all_of = comm.gather(mine, root)
            assert all_of is None if rank != root else (all_of == numpy.stack(parts)).all()
            piece = comm.scatter(numpy.stack(parts) if rank == root else None, None if rank == root else numpy.empty_like(mine),
                                 root)
            numpy.testing.assert_array_equal(piece, mine)
            numpy.testing.assert_array_equal(comm.alltoall(mine), numpy.concatenate([p[2 * rank:2 * rank + 2] for p in parts]))
        of_own_sizes(comm)
        with_gaps(comm)
        if size > 1:
            ring = [comm.isend(numpy.array([rank]), (rank + 1) % size), comm.irecv(numpy.empty(1, int), (rank - 1) % size)]
            assert [work.wait()[0] for work in ring] == [rank, (rank - 1) % size]
        comm.barrier()


def of_own_sizes(comm):
    rank, size = comm.rank, comm.size
    counts = [r + 1 for r in range(size)]
    options = tally.Options(counts=counts)
    numbers = numpy.arange(sum(counts), dtype=numpy.int32)
    places = numpy.split(numbers, numpy.cumsum(counts)[:-1])
    numpy.testing.assert_array_equal(comm.allgather(places[rank], options=options), numbers)
    numpy.testing.assert_array_equal(comm.reduce_scatter(numbers, options=options), size * places[rank])
    got = comm.scatter(numbers if rank == 0 else None, numpy.empty(counts[rank], numpy.int32), options=options)
    numpy.testing.assert_array_equal(got, places[rank])
    # Rank i has i + j elements of value 10 i + j for rank j.
    table = tally.Options(counts=[i + j for i in range(size) for j in range(size)])
    mine = numpy.repeat([10 * rank + j for j in range(size)], [rank + j for j in range(size)]).astype(numpy.int64)
    right = numpy.repeat([10 * i + rank for i in range(size)], [i + rank for i in range(size)])
    numpy.testing.assert_array_equal(comm.alltoall(mine, numpy.empty(right.size, numpy.int64), table), right)


def with_gaps(comm):
    """Parts that do not lie one after the other, in memory that keeps what is between them."""
    rank, size = comm.rank, comm.size
    counts = [r + 1 for r in range(size)]
    displs = [(size + 3) * (size - 1 - r) for r in range(size)]  # the last rank's comes first
    options, length = tally.Options(counts=counts, displs=displs), (size + 3) * size
    whole = numpy.full(length, -1, numpy.int32)
    for r in range(size):
        whole[displs[r]:displs[r] + counts[r]] = 100 * r + numpy.arange(counts[r])
    mine = whole[displs[rank]:displs[rank] + counts[rank]].copy()
    got = numpy.full(length, -1, numpy.int32)
    assert comm.allgather(mine, got, options) is got
    numpy.testing.assert_array_equal(got, whole)
    got = numpy.full(length, -1, numpy.int32) if rank == 0 else None
    assert comm.gather(mine, 0, got, options) is got
    assert rank or (got == whole).all()
    got = comm.scatter(whole if rank == 0 else None, numpy.empty_like(mine), options=options)
    numpy.testing.assert_array_equal(got, mine)
    numpy.testing.assert_array_equal(comm.reduce_scatter(whole, out=numpy.empty_like(mine), options=options), size * mine)
    table = tally.Options(counts=[1 + i for i in range(size) for _ in range(size)],
                          displs=[(size + 1) * j for j in range(size)] + [(size + 2) * i for i in range(size)])
    given, got = numpy.full((size, size + 1), rank), numpy.full((size, size + 2), -1)
    comm.alltoall(given, got, table)
    for i in range(size):
        assert got[i].tolist() == [i] * (i + 1) + [-1] * (size + 1 - i)
    refuses("its parts go from 0 to", comm.allgather, mine, numpy.zeros(displs[0], numpy.int32), options)
    refuses("an out is needed", comm.allgather, mine, options=options)
    refuses("parts go from", comm.reduce_scatter, whole[:displs[0]], out=mine, options=options)
    if rank == 0:
        refuses("parts go", comm.scatter, numpy.zeros(size - 1), numpy.zeros(1))
    of_wrong_lengths(comm)


def of_wrong_lengths(comm):
    """Counts and places that libtally would read beyond their end, on roots and on others; and arrays that it would."""
    rank, size = comm.rank, comm.size
    calls = ((comm.allgather, numpy.zeros(1), {}, size, size), (comm.reduce_scatter, numpy.zeros(size), {}, size, size),
             (comm.gather, numpy.zeros(1), {"root": size - 1}, size, size),
             (comm.scatter, numpy.zeros(size), {"root": size - 1}, size, size),
             (comm.alltoall, numpy.zeros(size), {}, size * size, 2 * size))
    for call, array, named, parts, places in calls:
        out = numpy.zeros(size if call in (comm.allgather, comm.gather, comm.alltoall) else 1)
        for n in {0, parts - 1, parts + 1}:
            refuses(f"counts has {n} numbers, and {size} ranks need {parts}", call, array, out=out, **named,
                    options=tally.Options(counts=[1] * n))
        for n in {0, places - 1, places + 1}:
            refuses(f"displs has {n} numbers, and {size} ranks need {places}", call, array, out=out, **named,
                    options=tally.Options(counts=[1] * parts, displs=[0] * n))
    if rank == 0:
        refuses("parts go", comm.scatter, numpy.zeros(2 * size - 1), numpy.zeros(2), options=tally.Options(name="short"))


def own_operation(rank, size):
    def longest(array, inout):
        """Of vectors of two, the longer one; of equal ones the first."""
        pairs, kept = array.reshape(-1, 2), inout.reshape(-1, 2)
        is_longer = (pairs ** 2).sum(1) >= (kept ** 2).sum(1)
        kept[is_longer] = pairs[is_longer]

    with tally.init() as comm:
        parts = [data(numpy.float64, 1000, r) for r in range(size)]
        lengths = numpy.stack([(part.reshape(-1, 2) ** 2).sum(1) for part in parts])
        right = numpy.stack(parts).reshape(size, -1, 2)[lengths.argmax(0), numpy.arange(500)].ravel()
        options = tally.Options(reduce=longest)
        numpy.testing.assert_array_equal(comm.allreduce(parts[rank], tally.Op.USER, options=options), right)
        work = comm.iallreduce(parts[rank], tally.Op.USER, options=options)
        del options
        numpy.testing.assert_array_equal(work.wait(), right)

        def wrong(array, inout):
            array[0] = 1  # is not to be written

        if size > 1:
            work = comm.iallreduce(parts[rank], tally.Op.USER, options=tally.Options(reduce=wrong))
            refuses("the reduce function raised ValueError", work.wait)
            assert isinstance(work.exception(), tally.ReduceError) and isinstance(work.exception().__cause__, ValueError)
        refuses("options->reduce is not set", comm.allreduce, parts[rank], tally.Op.USER)
        assert comm.allreduce(numpy.ones(1))[0] == size


def long_times(rank, size):
    """Above 49 days, which libtally counts in milliseconds of 32 bits; a wrapped one would be over at once."""
    with tally.init(deadline=2**32 / 1000 + 0.001) as comm:
        if rank == 0:
            time.sleep(0.5)
        options = tally.Options(deadline=float("inf"))
        assert comm.allreduce(numpy.ones(1))[0] == size and comm.allreduce(numpy.ones(1), options=options)[0] == size
        assert comm.iallreduce(numpy.ones(1)).wait(1e300)[0] == size
        refuses("-1", comm.allreduce, numpy.ones(1), options=tally.Options(deadline=-1))


class ByDlpack:
    """An array that has nothing but DLPack, as a tensor."""

    def __init__(self, array):
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def __dlpack__(self, **_):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return (1, 0)

    def new_empty(self, shape):
        return ByDlpack(numpy.empty(shape, self.dtype))


class OnDevice(ByDlpack):
    def __dlpack_device__(self):
        return (2, 0)


def by_dlpack(rank, size):
    with tally.init() as comm:
        for dtype in (numpy.int32, numpy.float64, numpy.complex64):
            mine = ByDlpack(data(dtype, 1000, rank))
            got = comm.allreduce(mine)
            assert isinstance(got, ByDlpack)
            check(got.array, expected(tally.SUM, dtype, 1000, size), dtype)
            part = ByDlpack(data(dtype, 1000, rank)[100:200])
            check(comm.allreduce(part, out=part).array, expected(tally.SUM, dtype, 1000, size)[100:200], dtype)
        for wrong, text in ((ByDlpack(numpy.zeros((4, 4))[:, 1]), "not contiguous"), (OnDevice(numpy.zeros(1)), "on a device"),
                            (ByDlpack(numpy.zeros(1, numpy.int16)), "int16")):
            refuses(text, comm.allreduce, wrong)


def refuses(text, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except (tally.Error, TypeError, ValueError) as error:
        assert text in str(error), f"{error!r} does not say {text!r}"
        return
    raise AssertionError(f"not refused: {text}")


def refused(_rank, size):
    with tally.init() as comm:
        read_only = numpy.zeros(3)
        read_only.flags.writeable = False
        for array, text in ((numpy.zeros((3, 3))[:, 0], "not contiguous"), (numpy.zeros(3, ">f4"), "big-endian"),
                            (numpy.zeros(3, numpy.int16), "int16"), ([1.0], "list")):
            refuses(text, comm.allreduce, array)
        refuses("read-only", comm.allreduce, read_only, out=read_only)
        refuses("out has 2 elements, and the result 3", comm.allreduce, numpy.zeros(3), out=numpy.zeros(2))
        refuses("different types", comm.allreduce, numpy.zeros(3), out=numpy.zeros(3, numpy.int32))
        refuses("cannot share", comm.reduce_scatter, numpy.zeros(size + 1))
        refuses(f"root {size}", comm.broadcast, numpy.zeros(3), size)
        refuses("one type", comm.allreduce_multi, [numpy.zeros(1), numpy.zeros(1, int)])
        refuses("float32", comm.allreduce, numpy.zeros(3, int), options=tally.Options(numbers=tally.Numbers.HALF))
        assert comm.allreduce(numpy.ones(1))[0] == size  # none of these has broken it


class Arrays(jobs.Case):
    def test_sums_of_every_type(self):
        for ranks in (1, 2, 3):
            self.job(ranks, "every_sum")

    def test_every_collective(self):
        for ranks in (1, 2, 4):
            self.job(ranks, "every_collective")

    def test_own_operations(self):
        for ranks in (1, 3):
            self.job(ranks, "own_operation")

    def test_long_times(self):
        self.job(2, "long_times")

    def test_dlpack(self):
        self.job(2, "by_dlpack")

    def test_what_is_refused(self):
        self.job(2, "refused")


if __name__ == "__main__":
    jobs.main(globals())
