#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare_test.py - what bench/compare makes of what it measures: ranks' lines become one row, void runs are told and do not count,
what must be shown is compared with the right figures, and the page draws what the results have."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import compare_read as read
import compare_suites as suites
from page_read import Page, Picture, gnuplot_put


def line(rank, **more):
    """What a rank of two prints of 10 operations of 8 elements."""
    made = {"command": "made", "rank": rank, "ranks": 2, "dtype": "int32", "elements": 8, "operations": 10, "timed_s": 0.5 + rank,
            "tat_us_median": 20.0 - rank, "tat_us_p99": 40.0, "tat_us_p1": 5.0, "tat_us_min": 4.0 + rank, "cpu_s": 0.25, "watched_cpu_s":
            0.0 if rank else 0.125, "machine_busy_s": 0.0 if rank else 0.75, "machine_stolen_s": 0.0, "elements_wrong": 0, "verified": True}
    return {**made, **more}


def run(way, us, void=None, **more):
    """A run as bench/compare keeps it."""
    made = {"host": False, "ranks": 8, "rate": "1gbit", "loss": 0, "lanes": None, "way": way, "dtype": "float32", "elements": suites.BIG,
            "options": "", "void": void, "at": "2026-01-01 00:00:00", "tree": "abc",
            "figures": {"us": us, "median_us": us, "p99_us": us, "rate": suites.BIG / us, "worker_s": us / 1e6, "server_s": 0.1, "machine_s": us / 5e5}}
    return {**made, **more}


class Rows(unittest.TestCase):
    def test_times_are_the_slowest_ranks_and_work_is_everybodys(self):
        row, = read.rows_of([line(1), line(0)], 2)
        self.assertEqual((row["timed_s"], row["tat_us_median"], row["tat_us_min"]), (1.5, 20.0, 5.0))
        self.assertEqual((row["cpu_s"], row["watched_cpu_s"], row["machine_busy_s"]), (0.5, 0.125, 0.75))
        self.assertIs(row["verified"], True)

    def test_one_wrong_rank_is_wrong(self):
        row, = read.rows_of([line(0), line(1, verified=False)], 2)
        self.assertIs(row["verified"], False)
        row, = read.rows_of([line(0), line(1, verified=None)], 2)
        self.assertIs(row["verified"], False)

    def test_a_rank_that_said_nothing_or_twice_is_refused(self):
        for lines in [line(0)], [line(0), line(0)], [line(0), line(1), line(1)]:
            with self.assertRaises(ValueError):
                read.rows_of(lines, 2)

    def test_tally_bench_has_one_line_of_all_ranks(self):
        one = line(0)
        del one["rank"]
        self.assertEqual(len(read.rows_of([one, {**one, "elements": 16}], 2)), 2)
        with self.assertRaises(ValueError):
            read.rows_of([one, one], 2)

    def test_figures_are_of_one_operation(self):
        row, = read.rows_of([line(0), line(1)], 2)
        self.assertEqual(read.figures(row), {"us": 150000.0, "median_us": 20.0, "p99_us": 40.0, "worker_s": 0.05, "server_s": 0.0125,
                                             "machine_s": 0.075, "rate": 8 / 150000.0, "cores": 0.625 / 1.5})
        beside = read.figures(row, multiplied=1200.0)
        self.assertEqual((beside["multiplied"], "server_s" in beside), (1200.0 * 0.125 / 1.5, False))
        for name in "machine_busy_s", "watched_cpu_s", "machine_stolen_s":
            del row[name]  # a build of before --watch
        self.assertNotIn("machine_s", read.figures(row))


class Void(unittest.TestCase):
    WHOLE = {"wall_s": 10.0, "busy_s": 12.0, "processes_s": 11.0, "ours_s": 10.8, "stolen_s": 0.1}

    def test_what_no_process_did_is_the_kernels_and_not_foreign(self):
        share = read.shares(self.WHOLE, 2)
        self.assertAlmostEqual(share["foreign"], 0.01)
        self.assertAlmostEqual(share["kernel"], 0.05)
        self.assertAlmostEqual(share["stolen"], 0.005)
        self.assertIsNone(read.void_because(share))

    def test_three_percent_are_too_much(self):
        self.assertIn("others", read.void_because(read.shares({**self.WHOLE, "ours_s": 10.3}, 2)))
        self.assertIn("stolen", read.void_because(read.shares({**self.WHOLE, "stolen_s": 0.7}, 2)))
        self.assertIsNone(read.void_because(read.shares({**self.WHOLE, "ours_s": 10.42}, 2)))

    def test_the_kernels_threads_and_ended_children_are_told(self):
        fields = "S %d 0 0 0 -1 0 0 0 0 0 5 7 11 13 20 0 1 0 99"
        self.assertEqual(read.process_ticks("17 (a ) b (c) " + fields % 1), (False, 36))
        self.assertEqual(read.process_ticks("17 (ksoftirqd/0) " + fields % 2), (True, 36))
        self.assertEqual(read.process_ticks("2 (kthreadd) " + fields % 0), (True, 36))

    def test_void_runs_do_not_count(self):
        table = read.summary([run("tally", 3.0), run("tally", 9.0, void="why"), run("tally", 5.0), run("tally", 4.0)])
        of, = table.values()
        self.assertEqual((of["runs"], of["void"], of["us"]), (3, 1, (4.0, 3.0, 5.0)))
        self.assertIsNone(read.find(read.summary([run("tally", 9.0, void="why")]), "us", way="tally"))


class Line(unittest.TestCase):
    def test_a_link_takes_bytes_of_whole_packets_and_of_the_rest(self):
        self.assertAlmostEqual(read.line_us(360, 1e9), 1506 * 8e-3)
        self.assertAlmostEqual(read.line_us(361, 1e9), (1506 + 70) * 8e-3)
        self.assertAlmostEqual(read.line_us(65536, 1e9), 2194, delta=1)
        self.assertEqual([read.rate_bps(text) for text in ("100mbit", "2.5gbit")], [1e8, 2.5e9])
        with self.assertRaises(ValueError):
            read.rate_bps("fast")


class Musts(unittest.TestCase):
    def values(self, suite, runs):
        return {must.words: must for must in suites.suites_make()[suite].musts(read.summary(runs))}

    def test_what_was_not_measured_neither_holds_nor_fails(self):
        for suite in suites.suites_make().values():
            for must in suite.musts({}):
                self.assertEqual((must.as_json()["holds"], must.verdict()), (None, "not measured"), must.words)

    def test_what_is_not_demanded_is_only_told(self):
        must = read.Must("a figure", read.Figure(1.5, 5))
        self.assertIsNone(must.as_json()["holds"])
        self.assertTrue(must.line().endswith("told"))

    def five(self, way, us, **more):
        return [run(way, us, **more) for _ in range(5)]

    def holds(self, musts, part):
        return [must.as_json()["holds"] for words, must in musts.items() if part in words]

    def test_rate_is_compared_with_the_best_peer(self):
        took, over = read.line_us(suites.BIG, 1e9) / 0.99, "25 M float32, n = 8, 1gbit: tally over the best peer"
        runs = [one for way in suites.PEERS for one in self.five(way, (1.8 if way == "gloo-ring" else 1.9) * took)]
        musts = self.values("rate", self.five("tally", took) + runs + self.five("ps", took))
        self.assertAlmostEqual(musts["25 M float32, n = 8, 1gbit: share of the link's limit"].value, 0.99)
        self.assertAlmostEqual(musts[over].value, 1.8)
        self.assertEqual(self.holds(musts, "n = 8, 1gbit"), [True, True])
        musts = self.values("rate", self.five("tally", took) + runs + 6 * self.five("mpi", 1.7 * took))
        self.assertEqual(self.holds(musts, over), [False])

    def test_few_runs_or_a_peer_that_failed_decide_nothing(self):
        took, over = read.line_us(suites.BIG, 1e9), "25 M float32, n = 8, 1gbit: tally over the best peer"
        runs = [one for way in suites.PEERS for one in self.five(way, 2 * took, void="failed" if way == "mpi" else None)]
        musts = self.values("rate", self.five("tally", took) + runs)
        self.assertEqual(self.holds(musts, over), [None])
        self.assertEqual(musts[over].verdict(), "not decided (without mpi): within")
        self.assertEqual(self.holds(musts, "n = 8, 1gbit: share"), [True])
        musts = self.values("rate", self.five("tally", 2 * took)[1:] + runs)
        self.assertEqual(musts["25 M float32, n = 8, 1gbit: share of the link's limit"].verdict(), "not decided (4 of 5 runs): OUTSIDE")
        self.assertEqual(musts[over].verdict(), "not decided (4 of 5 runs, without mpi): OUTSIDE")

    def test_processor_is_of_workers_and_of_the_machine(self):
        musts = self.values("processor", self.five("tally", 60.0) + self.five("gloo-ring", 100.0))
        self.assertEqual(self.holds(musts, "n = 8"), [True, True])
        musts = self.values("processor", self.five("tally", 80.0) + self.five("gloo-ring", 100.0))
        self.assertEqual(self.holds(musts, "n = 8"), [False, True])

    def test_loss_is_of_the_same_ways_time_without(self):
        at = {"ranks": 4, "rate": "250mbit", "elements": suites.LOSS_ELEMENTS}
        runs = [one for way, times in (("tally", (100, 100.5, 104)), ("gloo-ring@bbr", (200, 210, 220)))
                for loss, us in zip(suites.LOSSES, times) for one in self.five(way, us, loss=loss, **at)]
        musts = self.values("loss", runs)
        self.assertEqual([(round(must.value, 3), must.as_json()["holds"]) for words, must in musts.items() if "tally" in words],
                         [(1.005, True), (1.04, False)])
        self.assertEqual([round(must.value, 3) for words, must in musts.items() if "bbr" in words], [1.05, 1.1])

    def test_all_suites_have_ways_that_are_known(self):
        import compare_ways
        known = compare_ways.ways_make({"tree": "/nonexistent"})
        for suite in suites.suites_make().values():
            for group in suite.groups:
                self.assertEqual({cell["ranks"] for cell in group.cells}, {group.ranks})
                self.assertLessEqual({cell["way"] for cell in group.cells}, set(known))
                self.assertIn(group.workers - group.ranks, (0, 1))
        self.assertTrue(all(way.lacks for way in known.values() if way.name != "mpi"))


class OnePage(unittest.TestCase):
    def test_the_page_has_what_the_results_have(self):
        runs = [run(way, us + more, void="why" if more == 2 else None, ranks=ranks, congestion=None)
                for way, us in (("tally", 1e6), ("gloo-ring", 2e6)) for ranks in (2, 4, 8) for more in (0, 2, 4)]
        musts = [must.as_json() for must in suites.suites_make()["rate"].musts(read.summary(runs))]
        result = {"suite": "rate", "words": "a title", "commands": ["bench/compare --suite rate"], "lacking": {"mpi": "no mpirun"},
                  "machine": {"processor": "a processor", "cores": 3, "kernel": "6", "tcp": "bbr"}, "musts": musts, "runs": runs}
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "rate.json"), "w") as file:
                json.dump(result, file)
            path = gnuplot_put(os.path.join(folder, "gnuplot"))
            subprocess.run([sys.executable, os.path.join(HERE, "compare_page.py"), folder], check=True, stdout=subprocess.DEVNULL,
                           env={**os.environ, "PATH": path})
            with open(os.path.join(folder, "index.html")) as file:
                parts = dict(Page(file.read()).parts)
        below = parts["a title"]
        self.assertIn(("p", "Without mpi: no mpirun."), below)
        picture = next(item for item in below if item[0] == "picture")
        self.assertIn("set yrange [0:*]", picture[2])
        panel, = Picture(picture[2]).panels
        self.assertEqual([[round(y, 3) for y in point] for point in panel[4]["tally"]], [[n, 25.0] for n in (2, 4, 8)])
        self.assertEqual([round(y, 2) for _, y in panel[4]["limit of the link"]], [29.88] * 3)
        command = next(words for kind, words in (item for item in below if item[0] == "pre"))
        for words in "bench/compare --suite rate", "a processor, 3 cores", "TCP over bbr", "18 runs, 6 of them void":
            self.assertIn(words, command)
        cells = [row for kind, rows in (item for item in below if item[0] == "table") for row in rows]
        self.assertIn("2+1 void", next(row for row in cells if row[0] == "gloo-ring"))
        self.assertIn("Not measured:", " ".join(item[1] for of in parts.values() for item in of if item[0] == "p"))


unittest.main()
