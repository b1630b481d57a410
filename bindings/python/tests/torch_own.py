#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch_own.py RANKS - torch's own distributed_test.py (it is in its wheel), ranks by fork on the CPU: with Gloo, with tally, and those
that tally alone skips once more with tally under the name "gloo", for which they ask. Prints what became of them, each skip
that Gloo does not have, and how many calls went to tally. It fails if a test fails that is not explained here. 4 to 6 minutes.
What a run has found stays in build/torch-own-*.json, and is not run again: `rm` them first, to measure anew."""
import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.join(HERE, "..", "..", "..", "build")
# What cannot be right under a name that is not its own.
EXPLAINED = {
    "test_get_backend": "it compares the name, and the group says its own: tally",
    "test_monitored_barrier_gloo": "torch has monitored_barrier for groups of the name gloo alone: barrier names the rank here",
    "test_monitored_barrier_gloo_subgroup": "the same",
}


class Result(unittest.TestResult):
    """What became of each test."""

    def __init__(self):
        super().__init__()
        self.of = {}

    def note(self, test, what):
        self.of[test.id().rsplit(".", 1)[-1]] = what
        print(test.id().rsplit(".", 1)[-1], what[:150].replace("\n", " "), file=sys.stderr, flush=True)

    def addSuccess(self, test):
        self.note(test, "passed")

    def addSkip(self, test, reason):
        self.note(test, f"skipped: {reason}")

    def addFailure(self, test, err):
        self.note(test, "failed: " + self._exc_info_to_string(err, test))

    addError = addFailure


def take_name_of_gloo():
    """Groups of the name "gloo" are tally's."""
    import torch.distributed.distributed_c10d as c10d
    make = c10d._new_process_group_helper

    def made(*positional, **named):
        positional = ["tally" if str(value) == "gloo" else value for value in positional]
        if str(named.get("backend")) == "gloo":
            named["backend"] = c10d.Backend("tally")
        return make(*positional, **named)
    c10d._new_process_group_helper = made


def run(backend, names, calls):
    """The tests of these names, all if there are none, in ranks that the environment counts."""
    from torch import multiprocessing
    from torch.testing._internal.common_distributed import DistTestCases
    groups = []
    if backend != "gloo":
        sys.path.insert(0, os.path.join(HERE, ".."))
        from tally.torch import ProcessGroupTally
        begin = ProcessGroupTally.__init__

        def noted(self, *words, **named):
            begin(self, *words, **named)
            groups.append(self)
        ProcessGroupTally.__init__ = noted
        for feature in ("plugin", "ddp", "subgroup"):
            DistTestCases.backend_feature[feature].add("tally")
    os.environ["BACKEND"] = "tally" if backend == "tally" else "gloo"
    import torch.testing._internal.distributed.distributed_test as own
    if backend == "tally as gloo":
        take_name_of_gloo()

    class TestC10d(own.TestDistBackend, own.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._start_processes(multiprocessing.get_context("fork").Process)

        @classmethod
        def _run(cls, *words, **named):
            try:
                return super()._run(*words, **named)
            finally:
                with open(calls, "a", encoding="ascii") as file:
                    for group in groups:
                        file.write(json.dumps([group.offloaded, group.passed_on]) + "\n")

    own.instantiate_parametrized_tests(TestC10d)
    tests, result = unittest.TestLoader().loadTestsFromTestCase(TestC10d), Result()
    unittest.TestSuite(test for test in tests if not names or test.id().rsplit(".", 1)[-1] in names).run(result)
    return result.of


def outcome(backend, ranks, names=()):
    """What a run in a process of its own has found."""
    kept = os.path.join(BUILD, f"torch-own-{backend.replace(' ', '-')}-{ranks}.json")
    if not os.path.exists(kept):
        folder = tempfile.mkdtemp()
        for name in ("barrier", "test_dir", "init_dir"):
            os.mkdir(os.path.join(folder, name))
        try:
            subprocess.run([sys.executable, os.path.abspath(__file__), "--run", backend, f"{kept}.part", *names], check=True, timeout=900, env={
                **os.environ, "WORLD_SIZE": str(ranks), "TEMP_DIR": folder, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""})
        finally:
            shutil.rmtree(folder)
        os.rename(f"{kept}.part", kept)
    with open(kept, encoding="utf-8") as file:
        return json.load(file)


def main(ranks):
    gloo, tally = outcome("gloo", ranks), outcome("tally", ranks)
    only = [name for name, what in tally["tests"].items() if what.startswith("skipped") and gloo["tests"][name] == "passed"]
    named = outcome("tally as gloo", ranks, only) if only else {"tests": {}, "offloaded": {}, "passed on": {}}
    for title, found in (("gloo", gloo), ("tally", tally), ("tally under the name gloo", named)):
        counts = collections.Counter(what.split(":")[0] for what in found["tests"].values())
        print(f"{title}, {ranks} ranks: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped; offloaded "
              f"{sum(found['offloaded'].values())} calls {found['offloaded']}, to Gloo {found['passed on']}")
    bad = [f"{name}: {what}" for name, what in tally["tests"].items() if what.startswith("failed")]
    for name in only:
        what = named["tests"][name]
        print(f"  only with Gloo: {name}: {tally['tests'][name]}; under that name: {what.split(':')[0]}"
              + (f": {EXPLAINED.get(name)}" if what != "passed" else ""))
        if what != "passed" and name not in EXPLAINED:
            bad.append(f"{name}: {what}")
    sys.exit("\n".join(["NOT EXPLAINED", *bad]) if bad else 0)


if __name__ == "__main__":
    if sys.argv[1] == "--run":
        with tempfile.NamedTemporaryFile() as lines:
            tests = run(sys.argv[2], sys.argv[4:], lines.name)
            sums = [collections.Counter(), collections.Counter()]
            for line in lines:
                for total, more in zip(sums, json.loads(line)):
                    total.update(more)
        with open(sys.argv[3], "w", encoding="utf-8") as kept_file:
            json.dump({"tests": tests, "offloaded": sums[0], "passed on": sums[1]}, kept_file)
    else:
        main(int(sys.argv[1]))
