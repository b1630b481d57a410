#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The backend "tally" of torch.distributed, in jobs of several ranks: what it computes, what it offloads, and what becomes of
errors. What is right is worked out by torch from all ranks' data; torch_matrix_test.py has what is trained with it."""
import datetime
import gc
import os
import tempfile
import threading
import time

import jobs

try:
    import torch
except ImportError:
    print("SKIP: no torch (scripts/torch-test.sh installs it)")
    raise SystemExit(77) from None

import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

import tally.torch  # noqa: E402

WHOLE = [torch.int8, torch.uint8, torch.int32, torch.int64]
FLOATS = {torch.float16: 2e-2, torch.bfloat16: 0.1, torch.float32: 1e-5, torch.float64: 1e-13}
MOVED = [*WHOLE, *FLOATS, torch.bool, torch.int16, torch.complex64, torch.float8_e4m3fn]
SUM, AVG, MIN, MAX, PRODUCT = (getattr(dist.ReduceOp, name) for name in ("SUM", "AVG", "MIN", "MAX", "PRODUCT"))


def begin(rank, size, backend="tally", timeout_s=60, name="0"):
    dist.init_process_group(backend, init_method=f"file://{os.environ['MEET']}/{name}", rank=rank, world_size=size,
                            timeout=datetime.timedelta(seconds=timeout_s))
    torch.set_num_threads(1)
    return dist.group.WORLD


def data(dtype, rank, *shape):
    """Of both signs, and different on each rank."""
    draw = torch.Generator().manual_seed(rank + 7)
    if dtype in FLOATS or dtype.is_complex or dtype is torch.float8_e4m3fn:
        return torch.randn(shape, generator=draw, dtype=torch.complex64 if dtype.is_complex else torch.float32).to(dtype)
    return torch.randint(0 if dtype in (torch.uint8, torch.bool) else -9, 2 if dtype is torch.bool else 10, shape, generator=draw).to(dtype)


def expected(op, dtype, size, *shape):
    parts = torch.stack([data(dtype, r, *shape) for r in range(size)])
    wide = parts.to(torch.complex128 if dtype.is_complex else torch.float64 if dtype in FLOATS else torch.int64)
    if op == AVG:
        return wide.sum(0) / size if dtype not in WHOLE else torch.div(wide.sum(0), size, rounding_mode="trunc")
    return {SUM: lambda: wide.sum(0), MIN: lambda: wide.amin(0), MAX: lambda: wide.amax(0), PRODUCT: lambda: wide.prod(0)}[op]()


def check(got, right, dtype):
    near = 1e-5 if dtype.is_complex else FLOATS.get(dtype, 0)
    worst = (got.to(right.dtype) - right).abs().max().item()
    assert worst <= near * max(1, right.abs().max().item()), (dtype, worst)


def sums(rank, size):
    pg = begin(rank, size)
    calls = 0
    for dtype in [*WHOLE, *FLOATS, torch.complex64]:
        for op in [SUM, AVG] if dtype.is_complex else [SUM, AVG, MIN, MAX, PRODUCT]:
            if op == PRODUCT and dtype in (torch.int8, torch.uint8):
                continue  # does not fit
            for shape in ((1,), (40, 60)):
                tensor, right = data(dtype, rank, *shape), expected(op, dtype, size, *shape)
                dist.all_reduce(tensor, op)
                check(tensor, right, dtype)
                calls += 1
            tensor = data(dtype, rank, 40, 60).t()  # not contiguous
            dist.all_reduce(tensor, op)
            check(tensor.t(), expected(op, dtype, size, 40, 60), dtype)
            part = torch.empty(12, dtype=dtype)
            dist.reduce_scatter_tensor(part, data(dtype, rank, 12 * size), op)
            check(part, expected(op, dtype, size, 12 * size)[12 * rank:12 * rank + 12], dtype)
            dist.reduce_scatter(part, list(data(dtype, rank, 12 * size).split(12)), op)
            check(part, expected(op, dtype, size, 12 * size)[12 * rank:12 * rank + 12], dtype)
            calls += 1
        tensor = data(dtype, rank, 100)
        dist.reduce(tensor, size - 1)
        if rank == size - 1:
            check(tensor, expected(SUM, dtype, size, 100), dtype)
    assert pg.offloaded["allreduce"] == calls and not pg.passed_on, (pg.offloaded, pg.passed_on)
    bits = torch.tensor([1 << rank, 7])
    dist.all_reduce(bits, dist.ReduceOp.BOR)
    assert bits.tolist() == [(1 << size) - 1, 7]
    with dist._coalescing_manager(group=pg):
        several = [torch.full((i + 1,), float(rank)) for i in range(4)]
        for tensor in several:
            dist.all_reduce(tensor)
    assert all((tensor == size * (size - 1) / 2).all() for tensor in several) and pg.offloaded["allreduce_coalesced"] == 1
    dist.destroy_process_group()


def moves(rank, size):
    pg = begin(rank, size)
    for dtype in MOVED:
        tensor = data(dtype, rank, 5, 7)
        dist.broadcast(tensor, size - 1)
        right = [data(dtype, r, 5, 7).view(torch.uint8) for r in range(size)]
        assert torch.equal(tensor.view(torch.uint8), right[-1])
        rows = [torch.empty(5, 7, dtype=dtype) for _ in range(size)]
        dist.all_gather(rows, data(dtype, rank, 5, 7))
        assert all(torch.equal(row.view(torch.uint8), r) for row, r in zip(rows, right))
        flat = torch.empty(5 * size, 7, dtype=dtype)
        dist.all_gather_into_tensor(flat, data(dtype, rank, 5, 7))
        assert torch.equal(flat.view(torch.uint8), torch.cat(right))
    assert not pg.passed_on, pg.passed_on
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": r} for r in range(size)]
    dist.barrier()
    # The rest, by Gloo.
    flags = torch.tensor([True, rank == 0])
    dist.all_reduce(flags)
    assert flags.tolist() == [True, True]
    sparse = torch.sparse_coo_tensor([[rank]], [1.0], (size,))
    dist.all_reduce(sparse)
    assert sparse.to_dense().tolist() == [1.0] * size and pg.passed_on["allreduce"] == 2
    box = torch.zeros(2, dtype=torch.bool)
    dist.reduce_scatter_tensor(box, torch.ones(2 * size, dtype=torch.bool), dist.ReduceOp.MAX)
    assert box.all() and pg.offloaded["reduce_scatter_single"] == 1
    gathered = [torch.empty(2) for _ in range(size)] if rank == 0 else None
    dist.gather(torch.full((2,), float(rank)), gathered)
    assert rank or [row[0].item() for row in gathered] == list(range(size))
    piece = torch.empty(1)
    dist.scatter(piece, [torch.tensor([float(r)]) for r in range(size)] if rank == 0 else None)
    assert piece.item() == rank
    mine, theirs = torch.arange(size) + 10 * rank, torch.empty(size, dtype=torch.int64)
    dist.all_to_all_single(theirs, mine)
    assert theirs.tolist() == [10 * r + rank for r in range(size)]
    request = dist.isend(torch.tensor([rank]), (rank + 1) % size)
    box = torch.empty(1, dtype=torch.int64)
    dist.recv(box, (rank - 1) % size)
    request.wait()
    assert box.item() == (rank - 1) % size
    try:
        dist.all_reduce(torch.empty(1, device="meta"))
        raise AssertionError("a tensor that is not on the CPU was taken")
    except ValueError as error:
        assert "is on meta" in str(error)
    dist.destroy_process_group()


def groups(rank, size):
    """Made, split and made again, with a job's name set for all of them."""
    for life in range(3):
        begin(rank, size, name=str(life))
        pairs = [dist.new_group([0, 1]), dist.new_group(list(range(1, size)))]
        for group, ranks in zip(pairs, ([0, 1], range(1, size))):
            if rank in ranks:
                tensor = torch.tensor([rank])
                dist.all_reduce(tensor, group=group)
                assert tensor.item() == sum(ranks) and group.offloaded["allreduce"] == 1
        dist.destroy_process_group(pairs[0])
        tensor = torch.ones(1)
        dist.all_reduce(tensor)
        assert tensor.item() == size
        dist.destroy_process_group()


def works(rank, size):
    begin(rank, size)
    tensors = [torch.full((1000,), float(rank + i)) for i in range(20)]
    pending = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in reversed(pending):
        assert work.wait() and work.is_completed() and work.is_success() and work.source_rank() == rank
    assert all((tensor == size * i + size * (size - 1) / 2).all() for i, tensor in enumerate(tensors))
    # A continuation that waits for an operation that follows, of a work that nobody holds.
    first, second, seen, is_seen = torch.ones(5), torch.ones(5), [], threading.Event()

    def then(future):
        other.wait()
        seen.append(future.value()[0].sum().item())
        is_seen.set()

    future = dist.all_reduce(first, async_op=True).get_future()
    other = dist.all_reduce(second, async_op=True)
    future.then(then)
    del future
    gc.collect()
    assert is_seen.wait(20) and seen == [5 * size]
    dist.destroy_process_group()


def leaves(rank, size):
    """Parameters, which require grad, and are not contiguous: they are written in place all the same."""
    begin(rank, size, timeout_s=60 * 86400)
    leaf = nn.Parameter(data(torch.float32, rank, 4, 6).t())
    assert not leaf.is_contiguous() and leaf.is_leaf
    dist.all_reduce(leaf)
    check(leaf.detach().t(), expected(SUM, torch.float32, size, 4, 6), torch.float32)
    rows = [nn.Parameter(torch.empty(4, 6).t()) for _ in range(size)]
    dist.all_gather(rows, data(torch.float32, rank, 4, 6).t())
    assert all(torch.equal(row.detach().t(), data(torch.float32, r, 4, 6)) for r, row in enumerate(rows))
    dist.broadcast(rows[0], 1)
    assert torch.equal(rows[0].detach().t(), data(torch.float32, 0, 4, 6))
    work = dist.all_reduce(torch.ones(1), async_op=True)
    assert work.wait(datetime.timedelta.max)
    dist.destroy_process_group()


def comes_again(rank, size):
    """A rank that has tried in vain, and then meets one that comes for the first time; and again with the same store."""
    store = dist.FileStore(f"{os.environ['MEET']}/store", size)
    if rank == 0:
        try:
            tally.torch.ProcessGroupTally(store, rank, size, datetime.timedelta(seconds=1))
            raise AssertionError("alone, and no error")
        except dist.DistBackendError as error:
            assert "rank 1" in str(error) and "Timed out" in str(error), error
        store.set("tried", "in vain")
    else:
        store.wait(["tried"], datetime.timedelta(seconds=120))
    for _ in range(2):
        group = tally.torch.ProcessGroupTally(store, rank, size, datetime.timedelta(seconds=60))
        tensor = torch.ones(1)
        group.allreduce([tensor]).wait()
        assert tensor.item() == size
        group.shutdown()


def network():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.BatchNorm1d(64), nn.Linear(64, 5))


def train(rank, model, optimizer, steps=6):
    losses, draw = [], torch.Generator().manual_seed(rank)
    for _ in range(steps):
        loss = nn.functional.cross_entropy(model(torch.randn(16, 20, generator=draw)),
                                           torch.randint(0, 5, (16,), generator=draw))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def dies(rank, size, dead):
    begin(rank, size)
    dist.barrier()
    if rank == int(dead):
        print("READY", flush=True)
        time.sleep(60)
    try:
        dist.all_reduce(torch.ones(1000))
        raise AssertionError("no error")
    except dist.DistBackendError as error:
        assert f"rank {dead}" in str(error), error
    os._exit(0)


def late(rank, size):
    begin(rank, size).set_timeout(datetime.timedelta(seconds=2))
    dist.barrier()
    if rank == 1:
        time.sleep(5)
    try:
        dist.all_reduce(torch.ones(3))
        raise AssertionError("no error")
    except dist.DistBackendError as error:
        assert "rank 1" in str(error) and " Timed out " in str(error), error
    os._exit(0)


def differs(rank, size):
    begin(rank, size)
    work = dist.all_reduce(torch.ones(4 if rank else 5), async_op=True)
    failed = []
    work.get_future().add_done_callback(lambda future: failed.append(future))
    try:
        work.wait()
        raise AssertionError("no error")
    except dist.DistBackendError as error:
        assert "rank 0" in str(error), error
        assert isinstance(work.exception(), dist.DistBackendError) and not work.is_success()
    os._exit(0)


class Together(jobs.Case):
    """Tests of jobs that meet in a file, which torch.distributed wants."""

    def together(self, ranks, function, *words, **how):
        with tempfile.TemporaryDirectory() as folder:
            return self.job(ranks, function, *words, env={"MEET": folder, "OMP_NUM_THREADS": "1"}, **{"limit_s": 200, **how})


class Torch(Together):
    def test_sums(self):
        self.together(2, "sums")
        self.together(3, "sums")

    def test_what_is_moved(self):
        self.together(3, "moves")

    def test_groups(self):
        self.together(3, "groups")

    def test_works_and_futures(self):
        self.together(2, "works")

    def test_leaves_are_written(self):
        self.together(2, "leaves")

    def test_who_has_come_before(self):
        self.together(2, "comes_again")

    def test_the_dead_are_named(self):
        self.together(3, "dies", 2, kill=2)

    def test_the_late_are_named(self):
        self.together(3, "late")

    def test_other_calls_are_named(self):
        self.together(2, "differs")


if __name__ == "__main__":
    jobs.main(globals())
