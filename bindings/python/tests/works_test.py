#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Operations in flight, communicators, and what becomes of errors and of Ctrl-C, in the Python package."""
import asyncio
import gc
import json
import logging
import os
import tempfile
import threading
import time

import jobs

jobs.need("numpy", "python3-numpy (scripts/deps.sh test)")
import numpy  # noqa: E402

import tally  # noqa: E402


def overlapping(rank, size):
    with tally.init() as comm:
        works = [comm.iallreduce(numpy.full(1000 + i, rank - i)) for i in range(20)]
        for i in reversed(range(20)):
            assert (works[i].wait() == size * (size - 1) / 2 - size * i).all() and works[i].done()
        arrays = [numpy.full(i, float(rank), numpy.float32) for i in range(5)]
        assert all((array == size * (size - 1) / 2).all() for array in comm.allreduce_multi(arrays))
        with tally.group():
            grouped = [comm.iallreduce(numpy.array([rank, -i])) for i in range(3)]
        assert [work.wait()[1] for work in grouped] == [0, -size, -2 * size]
        if rank == 0:
            work = comm.iallreduce(numpy.ones(1))
            try:
                work.wait(0.1)
                raise AssertionError("it was complete before the others began")
            except TimeoutError as error:
                assert "still in flight" in str(error)
        else:
            time.sleep(0.4)
            work = comm.iallreduce(numpy.ones(1))
        assert work.wait(20)[0] == size


def more_than_fit(rank, size):
    """More operations than memory or rings hold, of both streams: one order on all ranks, whoever is late."""
    with tally.init() as comm:
        works = []
        if rank == 0:
            time.sleep(0.5)  # the others' are all there by then, and wait for room
        for i in range(700):
            works.append(comm.iallreduce(numpy.full(50000 if i % 3 else 3, rank - i, numpy.int32)))
        for i, work in enumerate(works):
            assert (work.wait(60) == size * (size - 1) // 2 - size * i).all(), i


def dropped(rank, size):
    """Nobody holds the communicator, the works or the arrays."""
    comm = tally.init()
    for i in range(20):
        comm.iallreduce(numpy.full(100000, float(rank + i)))
    del comm
    gc.collect()
    arrays = [numpy.zeros(100000) for _ in range(40)]
    time.sleep(0.3)
    assert all((array == 0).all() for array in arrays)


def called_back(rank, size):
    """Functions that wait for an operation that they start, of works that nobody holds."""
    with tally.init() as comm:
        seen, is_all, lock = [], threading.Event(), threading.Lock()

        def then(work):
            total = comm.allreduce(work.wait() * 2)[0] if size == 1 else work.wait()[0] * 2
            with lock:
                seen.append(total)
                if len(seen) == 10:
                    is_all.set()

        for i in range(10):
            comm.iallreduce(numpy.array([rank + i])).add_done_callback(then)
        gc.collect()
        assert is_all.wait(20)
        base = size * (size - 1) // 2
        assert sorted(seen) == [2 * (base + size * i) for i in range(10)], seen
        # One that waits for the next: they are called side by side.
        first, second, reached = comm.iallreduce(numpy.ones(1)), comm.iallreduce(numpy.ones(1)), threading.Event()
        first.add_done_callback(lambda _: (second.wait(), reached.set()))
        assert reached.wait(20)
        for i in range(200):  # forgotten: their arrays live on
            comm.iallreduce(numpy.full(3000, float(i)))
        gc.collect()
        assert comm.allreduce(numpy.ones(1))[0] == size
        assert len(comm._flying) < 200


def awaited(rank, size):
    async def both(comm):
        async def one(i):
            return (await comm.iallreduce(numpy.array([rank + i])))[0]
        return await asyncio.gather(*[one(i) for i in range(8)])

    with tally.init() as comm:
        assert asyncio.run(both(comm)) == [size * (size - 1) // 2 + size * i for i in range(8)]


def communicators(rank, size, folder):
    def allgather(mine):
        allgather.calls += 1
        name = f"{folder}/{allgather.calls}"
        with open(f"{name}-{rank}.part", "wb") as file:
            file.write(mine)
        os.rename(f"{name}-{rank}.part", f"{name}-{rank}")
        parts = []
        for r in range(size):
            while not os.path.exists(f"{name}-{r}"):
                time.sleep(0.01)
            with open(f"{name}-{r}", "rb") as file:
                parts.append(file.read())
        return parts

    allgather.calls = 0
    with tally.join(os.environ["TALLY_JOB"], size, rank, aggregator="local") as world, tally.meet(size, rank, allgather) as other:
        assert allgather.calls == 2 and other.allreduce(numpy.ones(1))[0] == size
        half = world.split(rank % 2, -rank)
        assert (half.rank, half.size) == ((size - 1 - rank) // 2, size // 2)
        assert half.allreduce(numpy.array([rank]))[0] == sum(range(rank % 2, size, 2))
        half.close()
        half.close()
        assert world.split(-1) is None
        stats = world.stats()
        assert stats.operations > 0 and stats.lanes > 0 and world.error() is None
        with tempfile.TemporaryFile() as file:
            world.dump(file.fileno())
            file.seek(0)
            assert json.load(file)["rank"] == rank
        try:
            half.barrier()
            raise AssertionError("closed, and it worked")
        except tally.UsageError:
            pass


def logged(rank, _size):
    lines = []

    class Handler(logging.Handler):
        def emit(self, record):
            lines.append((record.levelno, record.getMessage()))

    logging.getLogger("tally").addHandler(Handler())
    tally.set_log(logging.INFO)
    logging.getLogger("tally").setLevel(logging.INFO)
    with tally.init() as comm:
        comm.barrier()
    assert any(level == logging.INFO and f"rank {rank} " in text for level, text in lines), lines


def mismatched(rank, size):
    comm = tally.init()
    try:
        comm.allreduce(numpy.zeros(5 if rank == 1 else 4))
        raise AssertionError("no error")
    except tally.MismatchError as error:
        assert "rank 1" in str(error) and error.result == 100, error
    assert isinstance(comm.error(), tally.MismatchError)
    comm.close()


def late(rank, size):
    comm = tally.init(deadline=0.5)
    if rank == size - 1:
        time.sleep(2)
    try:
        comm.barrier()
        raise AssertionError("no error")
    except tally.DeadlineError as error:
        assert f"rank {size - 1}" in str(error) and isinstance(error, TimeoutError), error
    comm.close()


def survives(rank, size, dead):
    comm = tally.init()
    comm.barrier()
    if rank == int(dead):
        print("READY", flush=True)
        time.sleep(60)
    try:
        comm.allreduce(numpy.ones(100000))
        raise AssertionError("no error")
    except tally.RemoteError as error:
        assert f"rank {dead}" in str(error), error
    comm.close()


def raises(rank, size):
    """In a with block an exception of one rank ends the job of all; the others hear of it at once."""
    with tally.init() as comm:
        comm.barrier()
        if rank == 1:
            time.sleep(0.5)  # all have their barrier
            raise KeyError("one's own")
        try:
            comm.barrier()
        except tally.RemoteError as error:
            assert "rank 1" in str(error), error
            print("heard of it")


def forgets(rank, size):
    """Nobody closes."""
    comm = tally.init()
    assert comm.allreduce(numpy.ones(1))[0] == size


def stopped(rank, size, where):
    """Ctrl-C while it waits."""
    began = time.monotonic()
    if where == "init":
        print("READY", flush=True)
        try:
            tally.join(os.environ["TALLY_JOB"], 2, 0, aggregator="local")
        except KeyboardInterrupt:
            print(f"after {time.monotonic() - began:.1f} s")
            assert time.monotonic() - began < 1.5
        return
    comm = tally.init()
    if rank == 0:
        print("READY", flush=True)
        try:
            comm.barrier()
        except KeyboardInterrupt:
            began = time.monotonic()
            comm.abort()
            comm.close()
            assert time.monotonic() - began < 1
            return
        raise AssertionError("not interrupted")
    time.sleep(1)
    try:
        comm.barrier()
        raise AssertionError("no error")
    except tally.RemoteError:
        pass


class Works(jobs.Case):
    def test_in_flight(self):
        self.job(3, "overlapping")
        self.job(3, "more_than_fit")
        self.job(2, "dropped")

    def test_callbacks_may_wait(self):
        for ranks in (1, 2):
            self.job(ranks, "called_back")

    def test_asyncio(self):
        self.job(2, "awaited")


class Communicators(jobs.Case):
    def test_joined_met_and_split(self):
        with tempfile.TemporaryDirectory() as folder:
            self.job(4, "communicators", folder)

    def test_log_is_pythons(self):
        self.job(2, "logged")

    def test_exit_without_close(self):
        self.job(3, "forgets")


class Failures(jobs.Case):
    def test_other_calls_are_named(self):
        self.job(3, "mismatched")

    def test_the_late_are_named(self):
        self.job(3, "late")

    def test_the_dead_are_named(self):
        self.job(3, "survives", 2, kill=2)

    def test_an_exception_ends_the_job(self):
        said = self.job(3, "raises", fails=[1])
        self.assertIn("one's own", said[1])
        self.assertTrue(all(text.endswith("heard of it\n") for text in said[::2]), said)

    def test_ctrl_c(self):
        self.job(2, "stopped", "barrier", signal_to=0)
        self.job(1, "stopped", "init", signal_to=0)


if __name__ == "__main__":
    jobs.main(globals())
