#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What becomes of a training with the backend "tally" when ranks are killed, restarted and interrupted: below torchrun, with the
process group of torchrun's own store."""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

import jobs
import torch_test
from torch_test import torch

import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

RANKS = 3


def train(steps, at_step=lambda step: None):
    model = nn.parallel.DistributedDataParallel(torch_test.network())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(steps):
        at_step(step)
        torch_test.train(dist.get_rank(), model, optimizer, steps=1)
    return sum(parameter.sum().item() for parameter in model.parameters())


def begin():
    torch.set_num_threads(1)
    dist.init_process_group("tally")
    return dist.get_rank(), os.environ["TORCHELASTIC_RESTART_COUNT"]


def note(text):
    with open(f"{os.environ['NOTES']}/{text}", "w", encoding="ascii"):
        pass


def killed():
    """Rank 1 is killed at the third step; torchrun starts all again, and these go through. Twice, in one process: the names of
    groups are of one life each."""
    rank, attempt = begin()
    if attempt == "0":
        def at_step(step):
            if step == 2 and rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
        try:
            train(100, at_step)
        except dist.DistBackendError as error:
            # Or another that torchrun has ended because of it.
            note(f"named-{rank}" if re.search(r"\brank \d", str(error)) else f"unnamed-{rank}")
            time.sleep(20)  # torchrun ends it, maybe before it has come here
            raise
    sums = [train(5)]
    dist.destroy_process_group()
    dist.init_process_group("tally")
    sums.append(train(5))
    dist.destroy_process_group()
    assert sums[0] == sums[1]
    note(f"trained-{rank}-{attempt}")


def endless():
    rank, _ = begin()

    def at_step(step):
        if step == 3:
            note(f"runs-{rank}")
    try:
        train(10**6, at_step)
    except (KeyboardInterrupt, RuntimeError) as error:
        # torch makes a RuntimeError of one that meets its own C++.
        if "KeyboardInterrupt" in repr(error):
            note(f"interrupted-{rank}")
        raise


def waits(rank, size):
    """Ctrl-C where a rank waits for one that does not come."""
    torch_test.begin(rank, size)
    dist.barrier()
    interrupted = f"{os.environ['MEET']}/interrupted"
    if rank:
        end = time.monotonic() + 20
        while not os.path.exists(interrupted):
            assert time.monotonic() < end, "Ctrl-C does not end a wait"
            time.sleep(0.01)
        try:
            dist.all_reduce(torch.ones(1))
            raise AssertionError("no error")
        except dist.DistBackendError as error:
            assert "rank 0" in str(error), error
            os._exit(0)
    print("READY", flush=True)
    try:
        dist.all_reduce(torch.ones(5))
    except KeyboardInterrupt:
        with open(interrupted, "w", encoding="ascii"):
            pass
        raise


class Elastic(torch_test.Together):
    def torchrun(self, function, folder, *words):
        return subprocess.Popen([sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}", *words,
                                 os.path.abspath(__file__), "--torchrun", function], text=True, start_new_session=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                env={**os.environ, "NOTES": folder, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"})

    def end(self, process, limit_s):
        try:
            return process.communicate(timeout=limit_s)[0]
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)

    def test_all_start_again_after_a_killed_rank(self):
        with tempfile.TemporaryDirectory() as folder:
            process = self.torchrun("killed", folder, "--max-restarts=1", "--monitor-interval=1")
            said = self.end(process, 200)
            notes = set(os.listdir(folder))
            self.assertEqual(process.returncode, 0, said)
            trained = {f"trained-{rank}-1" for rank in range(RANKS)}
            self.assertLessEqual(trained, notes, said)
            # Whether these come to their notes before torchrun ends them is not known.
            self.assertLessEqual(notes, trained | {"named-0", "named-2"}, said)

    def test_ctrl_c_ends_a_training(self):
        with tempfile.TemporaryDirectory() as folder:
            process = self.torchrun("endless", folder)
            end = time.monotonic() + 120
            while len(os.listdir(folder)) < RANKS and time.monotonic() < end:
                time.sleep(0.05)
            begin_s = time.monotonic()
            for pid in [process.pid, *children(process.pid)]:  # as a terminal does
                os.kill(pid, signal.SIGINT)
            while alive := children(process.pid):
                if time.monotonic() - begin_s > 20:
                    break
                time.sleep(0.01)
            took_s = time.monotonic() - begin_s
            said = self.end(process, 30)
            self.assertEqual(alive, [], said)
            self.assertTrue([name for name in os.listdir(folder) if name.startswith("interrupted")], said)
            self.assertLess(took_s, 15, said)  # torchrun kills after 30

    def test_ctrl_c_ends_a_wait(self):
        self.together(2, "waits", signal_to=0, fails=(0,))


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(child) for child in file.read().split()]
    except FileNotFoundError:
        return []


if __name__ == "__main__":
    if sys.argv[1:2] == ["--torchrun"]:
        globals()[sys.argv[2]]()
    else:
        jobs.main(globals())
