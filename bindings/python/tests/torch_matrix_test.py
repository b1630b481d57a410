#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is built upon torch.distributed, each trained or run with Gloo and then with tally by the same ranks: the results are the
same, tally carries the calls, and nothing goes to Gloo but what is named here."""
import itertools
import os
import tempfile
from collections import Counter

import jobs
import torch_test
from torch_test import begin, network, tally, torch

import torch.distributed as dist  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: E402

CPU = torch.device("cpu")


def batches(rank, steps):
    draw = torch.Generator().manual_seed(rank)
    for _ in range(steps):
        yield torch.randn(16, 20, generator=draw), torch.randint(0, 5, (16,), generator=draw)


def learn(rank, model, optimizer=None, steps=5, out=lambda logits: logits):
    """The losses of each step, and the last output: it has all parameters' history."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), 0.1)
    losses = []
    for data, label in batches(rank, steps):
        loss = nn.functional.cross_entropy(out(model(data)), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [torch.stack(losses), out(model(data)).detach()]


def ddp(**how):
    return lambda rank, size: learn(rank, DDP(network(), bucket_cap_mb=0.01, **how))


def hooked(hook, state=lambda: None):
    def run(rank, size):
        model = DDP(network(), bucket_cap_mb=0.01)
        model.register_comm_hook(state(), hook)
        return learn(rank, model)
    return run


def bf16(state, bucket):  # under its own name, torch refuses it without a GPU
    return default_hooks.bf16_compress_hook(state, bucket)


def own_hook(rank, size):
    """Only the gradients by tally, whatever the group is."""
    plain_losses = learn(rank, DDP(network()))[0]
    with tally.torch.communicator() as comm:
        model = DDP(network(), bucket_cap_mb=0.01)
        model.register_comm_hook(comm, tally.torch.allreduce_hook)
        got = learn(rank, model)
        assert torch.allclose(got[0], plain_losses, rtol=1e-5, atol=1e-5) and comm.stats().operations >= 5
    return got


def no_sync(rank, size):
    model = DDP(network())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step, (data, label) in enumerate(batches(rank, 6)):
        if step % 3 < 2:
            with model.no_sync():
                nn.functional.cross_entropy(model(data), label).backward()
            continue
        nn.functional.cross_entropy(model(data), label).backward()
        optimizer.step()
        optimizer.zero_grad()
    return [parameter.detach() for parameter in model.parameters()]


class Branches(nn.Module):
    """Which of its parts is used differs by rank and step."""

    def __init__(self):
        super().__init__()
        self.parts, self.last = nn.ModuleList([network() for _ in range(3)]), nn.Linear(5, 5)
        self.calls = itertools.count(dist.get_rank())

    def forward(self, x):
        return self.last(self.parts[next(self.calls) % 3](x))


def unused(rank, size):
    return learn(rank, DDP(Branches(), find_unused_parameters=True))


def compiled(rank, size):
    return learn(rank, torch.compile(DDP(network()), backend="aot_eager"), steps=3)


def join(rank, size):
    """Ranks of different numbers of batches."""
    from torch.distributed.optim import ZeroRedundancyOptimizer
    torch.manual_seed(3)
    model = DDP(nn.Linear(20, 5))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
    with dist.algorithms.Join([model, optimizer]):
        for data, label in batches(rank, 3 + 2 * rank):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(data), label).backward()
            optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


def zero(overlap):
    def run(rank, size):
        from torch.distributed.optim import ZeroRedundancyOptimizer
        model = DDP(network(), gradient_as_bucket_view=overlap)
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=1e-2, parameters_as_bucket_view=overlap)
        got = learn(rank, model, optimizer)
        optimizer.consolidate_state_dict(0)  # by objects
        return got
    return run


def fsdp1(strategy, **how):
    def run(rank, size):
        from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, ShardingStrategy
        from torch.distributed.fsdp.wrap import ModuleWrapPolicy
        if "dtype" in how:
            how["mixed_precision"] = MixedPrecision(**dict.fromkeys(("param_dtype", "reduce_dtype", "buffer_dtype"), how.pop("dtype")))
        mesh = {"device_mesh": init_device_mesh("cpu", (2, size // 2))} if strategy.startswith("HYBRID") else {}
        model = FullyShardedDataParallel(network(), device_id=CPU, sharding_strategy=ShardingStrategy[strategy], use_orig_params=True,
                                         auto_wrap_policy=ModuleWrapPolicy({nn.Linear}), **mesh, **how)
        got = learn(rank, model, out=lambda logits: logits.float())
        model.clip_grad_norm_(0.1)
        return [*got, *model.state_dict().values()] if not mesh else got
    return run


def shard(model, size, shape, dtype=None):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("r", "s")[-len(shape):])
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=dtype) if dtype else MixedPrecisionPolicy()
    for part in (*(layer for layer in model if isinstance(layer, nn.Linear)), model):
        fully_shard(part, mesh=mesh, mp_policy=policy)
    return model


def plain():
    """Without a batch's norm: its buffers of bfloat16 are a matter of their own."""
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(20, 37), nn.ReLU(), nn.Linear(37, 5))


def fsdp2(shape, dtype=None):
    return lambda rank, size: learn(rank, shard(plain(), size, shape(size), dtype), out=lambda logits: logits.float())


def dtensor(rank, size):
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    mesh = init_device_mesh("cpu", (size,))
    torch.manual_seed(5)
    a, b = torch.randn(4 * size, 3 * size), torch.randn(3 * size, 10)
    product = distribute_tensor(a, mesh, [Shard(1)]) @ distribute_tensor(b, mesh, [Shard(0)])
    part = DTensor.from_local(torch.full((2 * size,), float(rank)), mesh, [Partial()])
    model = parallelize_module(nn.Sequential(nn.Linear(6, 4 * size), nn.ReLU(), nn.Linear(4 * size, 6)), mesh,
                               {"0": ColwiseParallel(), "2": RowwiseParallel()})
    x = torch.randn(5, 6)
    model(x).square().mean().backward()
    return [product.full_tensor(), (a @ b) - product.full_tensor() > 1e-3, part.redistribute(mesh, [Shard(0)]).to_local(),
            part.redistribute(mesh, [Replicate()]).to_local(), distribute_tensor(a, mesh, [Shard(0)]).redistribute(mesh, [Shard(1)]).to_local(),
            model(x).detach(), model[0].weight.grad.full_tensor(), distribute_tensor(a, mesh, [Shard(0)]).max().full_tensor()]


def checkpoint(rank, size):
    """Saved by shards, loaded into a model that began elsewhere."""
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    folder = os.path.join(os.environ["MEET"], f"saved-{dist.get_backend()}")
    models = [shard(plain(), size, (size,)) for _ in range(2)]
    optimizers = [torch.optim.Adam(model.parameters(), 0.01) for model in models]
    learn(rank, models[0], optimizers[0])
    state = dict(zip(("model", "optimizer"), get_state_dict(models[0], optimizers[0])))
    dcp.save(state, checkpoint_id=folder)
    state = dict(zip(("model", "optimizer"), get_state_dict(models[1], optimizers[1])))
    dcp.load(state, checkpoint_id=folder)
    set_state_dict(models[1], optimizers[1], model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    both = [[parameter.full_tensor().detach() for parameter in model.parameters()] for model in models]
    assert all(torch.equal(a, b) for a, b in zip(*both))
    return [*both[1], *learn(rank, models[1], optimizers[1])]


ALL, PAIRS = (2, 3, 4), (4,)
BF16 = torch.bfloat16
# name: (what, at which sizes, how near, what Gloo does there)
TABLE = {
    "ddp": (ddp(), ALL, 1e-5, ()),
    "ddp, no_sync": (no_sync, ALL, 1e-5, ()),
    "ddp, unused parameters": (unused, ALL, 1e-5, ()),
    "ddp, static graph": (ddp(static_graph=True), ALL, 1e-5, ()),
    "ddp, bucket views": (ddp(gradient_as_bucket_view=True), ALL, 1e-5, ()),
    "ddp, compiled": (compiled, (2,), 1e-5, ()),
    "ddp, bf16 hook": (hooked(bf16), ALL, 2e-2, ()),
    "ddp, fp16 hook": (hooked(default_hooks.fp16_compress_hook), (2,), 1e-2, ()),
    "ddp, tally's hook": (own_hook, ALL, 1e-5, ()),
    "ddp, PowerSGD": (hooked(powerSGD_hook.powerSGD_hook, lambda: powerSGD_hook.PowerSGDState(
        None, matrix_approximation_rank=2, start_powerSGD_iter=2)), ALL, 1e-3, ()),
    "join": (join, ALL, 1e-5, ()),
    "zero": (zero(False), ALL, 1e-5, ()),
    "zero, bucket views": (zero(True), ALL, 1e-5, ()),
    "fsdp1, full": (fsdp1("FULL_SHARD"), ALL, 1e-5, ()),
    "fsdp1, gradients": (fsdp1("SHARD_GRAD_OP"), ALL, 1e-5, ()),
    "fsdp1, bf16": (fsdp1("FULL_SHARD", dtype=BF16), ALL, 5e-2, ()),
    "fsdp1, hybrid": (fsdp1("HYBRID_SHARD"), PAIRS, 1e-5, ()),
    "fsdp2": (fsdp2(lambda size: (size,)), ALL, 1e-5, ()),
    "fsdp2, bf16": (fsdp2(lambda size: (size,), BF16), ALL, 5e-2, ()),
    "fsdp2, hybrid": (fsdp2(lambda size: (2, size // 2)), PAIRS, 1e-5, ()),
    "dtensor": (dtensor, ALL, 1e-5, ()),
    "checkpoint": (checkpoint, ALL, 1e-5, ()),
}


# Gloo's own threads drop what a hook has held when they come to it. Where that is the last of a group, the group waits there for
# those threads: the process ends with "Resource deadlock avoided".
kept = []


def case(rank, size, name):
    what, _, near, of_gloo = TABLE[name]
    results = {}
    for backend in ("gloo", "tally"):
        begin(rank, size, backend, name=f"{backend}-{name.replace(' ', '')}")
        results[backend] = what(rank, size)
        groups = list(dist.distributed_c10d._world.pg_map)
        if backend == "gloo":
            kept.extend(groups)
        else:
            offloaded, passed_on = (sum((getattr(group, kind) for group in groups), Counter()) for kind in ("offloaded", "passed_on"))
        dist.destroy_process_group()
    assert offloaded.total() > 2 and set(passed_on) <= set(of_gloo), (name, offloaded, passed_on)
    for right, got in zip(results["gloo"], results["tally"], strict=True):
        right, got = (value.to(torch.float64) for value in (right, got))
        worst, largest = (right - got).abs().max().item(), right.abs().max().item()
        assert worst <= near * max(1, largest), (name, worst, largest)
    if rank == 0:
        print(f"{name}: {dict(offloaded)}, to Gloo {dict(passed_on)}", flush=True)


def cases(rank, size):
    """All in one process of each rank: it takes longer to begin than to train."""
    for name, (_, sizes, _, _) in TABLE.items():
        if size in sizes:
            case(rank, size, name)


class Matrix(torch_test.Together):
    def test_matrix(self):
        for size in ALL:
            with self.subTest(size=size):
                print(self.together(size, "cases", limit_s=500)[0])


if __name__ == "__main__":
    jobs.main(globals())
