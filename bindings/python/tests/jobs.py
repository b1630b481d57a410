# SPDX-License-Identifier: Apache-2.0
"""Jobs of several processes, for tests: each test names a function of its own file, which runs as every rank."""
import os
import signal
import subprocess
import sys
import time
import unittest
import uuid

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
LIMIT_S = 60


def need(module, package, exit_status=77):
    """Runs again with Debian's Python where this one lacks a module; skips where that one lacks it too."""
    try:
        __import__(module)
    except ImportError:
        system = "/usr/bin/python3"
        if os.path.exists(system) and os.path.realpath(system) != os.path.realpath(sys.executable):
            os.execv(system, [system, *sys.argv])
        print(f"SKIP: no {package}")
        sys.exit(exit_status)


class Case(unittest.TestCase):
    """Tests of jobs."""

    def job(self, ranks, function, *words, fails=(), kill=None, signal_to=None, env=None, limit_s=LIMIT_S):
        """Runs function(rank, size, *words) of the test's file as each of so many ranks, without an aggregator of their own.
        They succeed, but those in `fails`. kill: this rank is killed when it says READY; signal_to: gets SIGINT then.
        Returns what they print."""
        file, job = sys.modules[type(self).__module__].__file__, f"python-{uuid.uuid4()}"
        base = {**os.environ, "TALLY_AGGREGATOR": "local", "TALLY_SIZE": str(ranks), "TALLY_JOB": job, **(env or {}),
                "PYTHONDONTWRITEBYTECODE": "1"}
        processes = [subprocess.Popen([sys.executable, file, "--rank", function, *map(str, words)], text=True,
                                      env={**base, "TALLY_RANK": str(rank)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                     for rank in range(ranks)]
        try:
            for rank, sent in ((kill, signal.SIGKILL), (signal_to, signal.SIGINT)):
                if rank is not None:
                    lines = [processes[rank].stdout.readline()]
                    while lines[-1] not in ("READY\n", ""):  # Gloo may warn before it
                        lines.append(processes[rank].stdout.readline())
                    self.assertTrue(lines[-1], f"rank {rank} of {function} ended before it was READY:\n{''.join(lines)}")
                    time.sleep(0.2)
                    processes[rank].send_signal(sent)
            said = [process.communicate(timeout=limit_s)[0] for process in processes]
        finally:
            for process in processes:
                process.kill()
        for rank, process in enumerate(processes):
            if rank in fails:
                self.assertNotEqual(process.returncode, 0, f"rank {rank} of {function} did not fail:\n{said[rank]}")
            elif rank != kill:
                self.assertEqual(process.returncode, 0, f"rank {rank} of {function}:\n{said[rank]}")
        return said


def main(functions):
    """Is a rank, or runs the tests."""
    if sys.argv[1:2] == ["--rank"]:
        functions[sys.argv[2]](int(os.environ["TALLY_RANK"]), int(os.environ["TALLY_SIZE"]), *sys.argv[3:])
    else:
        unittest.main(module="__main__", verbosity=2)
