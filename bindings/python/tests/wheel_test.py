#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The wheel: what is in it, for which systems it says it is, and that it works by itself where pip has installed it."""
import base64
import csv
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

import jobs

jobs.need("numpy", "python3-numpy (scripts/deps.sh test)")
sys.path.insert(0, os.path.join(jobs.HERE, ".."))
import wheel_backend  # noqa: E402

THREE_LINES = """
import numpy, tally
with tally.init() as comm:
    print(comm.allreduce(numpy.ones(4)), tally._library.lib._name)
"""


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.wheel = os.path.join(cls.folder, wheel_backend.build_wheel(cls.folder))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def test_record_names_every_file(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            names = wheel.namelist()
            record = next(name for name in names if name.endswith("/RECORD"))
            rows = {row[0]: row[1:] for row in csv.reader(wheel.read(record).decode().splitlines())}
            self.assertEqual(set(rows), set(names))
            for name in names:
                if name != record:
                    data = wheel.read(name)
                    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                    self.assertEqual(rows[name], [f"sha256={digest}", str(len(data))])
            self.assertLessEqual({"tally/lib/libtally.so.0", "tally/lib/libjansson.so.4", "tally/py.typed"}, set(names))

    def test_tag_is_that_of_its_newest_symbol(self):
        tag = re.search(r"manylinux_2_(\d+)_", self.wheel)
        self.assertTrue(tag, self.wheel)
        with zipfile.ZipFile(self.wheel) as wheel:
            wheel.extractall(os.path.join(self.folder, "all"))
        newest = 0
        for name in os.listdir(os.path.join(self.folder, "all/tally/lib")):
            said = subprocess.run(["objdump", "-T", os.path.join(self.folder, "all/tally/lib", name)], check=True,
                                  stdout=subprocess.PIPE, text=True).stdout
            newest = max([newest] + [int(minor) for minor in re.findall(r"GLIBC_2\.(\d+)", said)])
        self.assertEqual(int(tag[1]), newest)

    def test_it_works_where_pip_has_put_it(self):
        if subprocess.run([sys.executable, "-m", "pip", "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          check=False).returncode:
            print("SKIP: no python3-pip (scripts/deps.sh test)")
            return
        target = os.path.join(self.folder, "target")
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", target, self.wheel],
                       check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(self.folder, "three.py"), "w", encoding="utf-8") as file:
            file.write(THREE_LINES)
        base = {**os.environ, "PYTHONPATH": target, "TALLY_SIZE": "2", "TALLY_AGGREGATOR": "local",
                "TALLY_JOB": f"wheel-{os.getpid()}"}
        for name in ("TALLY_LIBRARY", "LD_LIBRARY_PATH"):
            base.pop(name, None)
        ranks = [subprocess.Popen([sys.executable, file.name], env={**base, "TALLY_RANK": str(rank)}, stdout=subprocess.PIPE,
                                  text=True) for rank in range(2)]
        for rank in ranks:
            self.assertEqual(rank.communicate(timeout=jobs.LIMIT_S)[0], f"[2. 2. 2. 2.] {target}/tally/lib/libtally.so.0\n")
            self.assertEqual(rank.returncode, 0)

    def test_sdist_is_the_tree(self):
        name = wheel_backend.build_sdist(self.folder)
        with tarfile.open(os.path.join(self.folder, name)) as tar:
            names = {member.name.split("/", 1)[1] for member in tar if "/" in member.name}
            top = tar.extractfile(f"{name[:-7]}/pyproject.toml").read().decode()
        self.assertIn('backend-path = ["bindings/python"]', top)
        self.assertLessEqual({"meson.build", "include/tally.h", "src/lib/comm.c", "bindings/python/wheel_backend.py", "PKG-INFO",
                              "scripts/setup.sh", "LICENSE"}, names)


if __name__ == "__main__":
    unittest.main(verbosity=2)
