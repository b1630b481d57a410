#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch_ddp.py PYTHON [RANKS [STEPS]] - samples/s of DistributedDataParallel with tally and with Gloo, in turn, three times each: hosts
are network namespaces at 1 Gbit/s (lab/lab.sh), the model has 20.5 million parameters of float32, a rank has one sample a step.
PYTHON has torch (scripts/torch-test.sh makes build/torch/bin/python); build/release is built. Needs root, and a quiet machine.

torch_ddp.py --rank BACKEND STEPS - one rank; what torchrun says is in its environment."""
import os
import re
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TREE = os.path.dirname(HERE)


def rank(backend, steps):
    import torch
    import torch.distributed as dist
    from torch import nn
    sys.path.insert(0, os.path.join(TREE, "bindings", "python"))
    import tally.torch  # noqa: F401 # registers the backend
    torch.set_num_threads(1)
    dist.init_process_group(backend)
    torch.manual_seed(1)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(
        nn.Linear(1600, 3200), nn.ReLU(), nn.Linear(3200, 3200), nn.ReLU(), nn.Linear(3200, 1600)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    draw = torch.Generator().manual_seed(dist.get_rank())
    losses = []
    for step in range(steps + 2):
        if step == 2:  # the first builds buckets anew
            dist.barrier()
            begin = time.monotonic()
        x = torch.randn(1, 1600, generator=draw)
        loss = (model(x) - x.roll(1, 1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    took = time.monotonic() - begin
    if dist.get_rank() == 0:
        parameters = sum(parameter.numel() for parameter in model.parameters())
        print(f"{backend}: {steps * dist.get_world_size() / took:.3f} samples/s, {parameters} parameters, losses",
              " ".join(f"{loss:.7f}" for loss in losses), flush=True)
    dist.destroy_process_group()


def lab(*words):
    subprocess.run([os.path.join(TREE, "lab", "lab.sh"), *words], check=True)


def run(python, backend, ranks, steps, port):
    """(samples/s, losses)."""
    base = {**os.environ, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "10.55.0.10", "MASTER_PORT": str(port), "WORLD_SIZE": str(ranks),
            "TALLY_AGGREGATOR": "10.55.0.1", "TALLY_LIBRARY": f"{TREE}/build/release/src/libtally.so.0", "PYTHONDONTWRITEBYTECODE": "1",
            "GLOO_SOCKET_IFNAME": "v,"}  # torch takes no name of one letter
    ranks_of = [subprocess.Popen(["ip", "netns", "exec", f"{os.environ['LAB']}-w{r}", "unshare", "--uts", "sh", "-c",
                                  f"hostname w{r}; exec \"$@\"", "sh", python, os.path.abspath(__file__), "--rank", backend, str(steps)],
                                 env={**base, "RANK": str(r), "LOCAL_RANK": "0"}, stdout=subprocess.PIPE, text=True)
                for r in range(ranks)]
    end = time.monotonic() + 60
    try:
        while time.monotonic() < end and any(p.poll() is None for p in ranks_of) and not any(p.poll() for p in ranks_of):
            time.sleep(0.1)
    finally:
        for process in ranks_of:
            process.kill()
    said = ranks_of[0].communicate()[0]
    found = re.search(r": ([0-9.]+) samples/s.* losses (.*)", said)
    if not found:
        sys.exit(f"torch_ddp.py: {backend} has said no result: {said}")
    return float(found[1]), [float(loss) for loss in found[2].split()]


def main(python, ranks=4, steps=6):
    os.environ["LAB"] = f"ddp{os.getpid()}"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("torch_ddp.py: ended"))  # not without taking the hosts away
    best, losses, tallyd = {}, {}, None
    try:
        lab("up", str(ranks))
        lab("shape", "1gbit", "128kb", "2mb")
        tallyd = subprocess.Popen(["ip", "netns", "exec", f"{os.environ['LAB']}-hub", f"{TREE}/build/release/tools/tallyd"])
        time.sleep(1)
        for turn in range(3):
            for i, backend in enumerate(("gloo", "tally")):
                rate, losses[backend] = run(python, backend, ranks, steps, 29500 + 2 * turn + i)
                best.setdefault(backend, []).append(rate)
                print(f"n = {ranks}, {backend}: {rate:.3f} samples/s", flush=True)
    finally:
        if tallyd:
            tallyd.terminate()
            tallyd.wait()
        lab("down")
    apart = max(abs(a - b) / abs(a) for a, b in zip(losses["gloo"], losses["tally"]))
    middle = {backend: sorted(rates)[1] for backend, rates in best.items()}
    print(f"n = {ranks}: tally / Gloo {middle['tally'] / middle['gloo']:.2f}, medians of 3; losses differ by {apart:.1e} of their size")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        rank(sys.argv[2], int(sys.argv[3]))
    else:
        main(sys.argv[1], *map(int, sys.argv[2:]))
