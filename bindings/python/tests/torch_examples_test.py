#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples for PyTorch below torchrun, small: they learn, and say the losses that they say with Gloo."""
import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest

import jobs
import wheel_backend
from torch_test import torch

EXAMPLES = os.path.join(jobs.HERE, "..", "..", "..", "examples", "torch")
LOSS = re.compile(r"^(?:epoch|step) \d+: loss ([0-9.]+)$", re.M)


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # The examples do not import tally: torch finds it as the wheel has it installed, by its entry points.
        cls.folder = tempfile.TemporaryDirectory()
        info = os.path.join(cls.folder.name, f"{wheel_backend.NAME}-{wheel_backend.version()}.dist-info")
        os.mkdir(info)
        for name, text in (("METADATA", wheel_backend.metadata()), ("entry_points.txt", wheel_backend.ENTRY_POINTS)):
            with open(os.path.join(info, name), "w", encoding="utf-8") as file:
                file.write(text)
        cls.paths = os.pathsep.join([os.path.abspath(os.path.join(jobs.HERE, "..")), cls.folder.name])

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def losses(self, example, *words, backends):
        """Those that it says with the last backend, and with all of them."""
        found = []
        for backend in backends:
            run = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
                                  os.path.join(EXAMPLES, example), "--backend", backend, *words],
                                 env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": self.paths},
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
            self.assertEqual(run.returncode, 0, run.stdout)
            self.assertIn(f"{backend}, 2 ranks", run.stdout)
            found.append(torch.tensor([float(loss) for loss in LOSS.findall(run.stdout)]))
            self.assertLess((found[0] - found[-1]).abs().max().item(), 2e-4, found)
        self.assertGreater(len(found[-1]), 0, run.stdout)
        return found[-1].tolist()

    def needs(self, files, package):
        if not glob.glob(files):
            print(f"SKIP: no {package} (scripts/deps.sh test)", flush=True)
            self.skipTest(package)

    def test_fashion(self):
        self.needs("/usr/share/datasets/fashion-mnist/*", "dataset-fashion-mnist")
        self.assertLess(self.losses("fashion_ddp.py", "--images=3000", "--batch=16", backends=["tally"])[-1], 2)

    def test_pages(self):
        self.needs("/usr/share/man/man[237]/*.gz", "manpages-dev")
        losses = self.losses("pages_fsdp.py", "--steps=20", "--width=64", "--layers=2", "--length=32", "--write=20",
                             backends=["gloo", "tally"])
        self.assertLess(losses[-1], losses[0] - 0.5)


if __name__ == "__main__":
    jobs.main(globals())
