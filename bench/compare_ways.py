# SPDX-License-Identifier: Apache-2.0
"""compare_ways.py - how bench/compare runs tally and its peers on the same work. A way has a name, what it says of itself,
what it lacks here (None: nothing), and run(job): the lines that its ranks have printed, and what the machine has worked."""
import json
import os
import shutil
import stat
import subprocess
import tempfile

import resnet50_trace
from compare_lab import HUB, Failed, Programs, Sent, Watch, address

HERE = os.path.dirname(os.path.abspath(__file__))
LATE_S = 3  # the last rank of the trace "late"
POLLS = 50  # as the tree's data plane has them (src/dataplane/link_udp.c)
MPI = ["--allow-run-as-root", "--bind-to", "none", "--oversubscribe", "--mca",
       "mpi_yield_when_idle", "1", "--mca", "pml", "ob1"]
RING = ["--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_allreduce_algorithm", "4"]


class Job:
    """What a way is to do: cell is a dictionary of compare_suites.cell()."""

    def __init__(self, lab, builds, cell, timeout_s):
        self.lab, self.builds, self.cell, self.timeout_s = lab, builds, cell, timeout_s
        self.ranks, self.build, self.sent = cell["ranks"], builds["tree"], None  # Sent's, if it is asked for
        self.beside = []  # the pid of bench/multiply, if it runs

    def watch(self, programs, pids=()):
        return Watch(programs, [*pids, *self.beside])

    def work(self, pids=(), rank=0):
        """What multiplies beside it is watched instead of daemons: how much it works while operations are timed."""
        cell, pids = self.cell, self.beside or pids
        if cell["trace"]:
            words = ["--trace", self.trace(rank), "--gpu-speed", "%g" % cell["gpu_speed"], "--iters", str(cell["iters"])]
            return words + (["--watch", ",".join(map(str, pids))] if pids else [])
        words = ["--elements", ",".join(map(str, cell["elements"])), "--dtype", cell["dtype"]]
        for name in "iters", "warmup":
            if cell[name] is not None:
                words += ["--" + name, str(cell[name])]
        return words + (["--watch", ",".join(map(str, pids))] if pids else [])

    def trace(self, rank):
        """The file; a made one lies in the lab's folder: of ResNet-50, or "late", of which the last rank computes for long."""
        made = self.cell["trace"]
        if made not in ("resnet50", "late"):
            return made
        path = os.path.join(self.lab.folder, "%s%d.csv" % (made, rank))
        with open(path, "w") as file:
            if made == "resnet50":
                resnet50_trace.write(file)
            else:
                file.write("0,1024,0,%.0f\n" % (LATE_S * 1e9 if rank == self.ranks - 1 else 0))
        return path

    def bench(self, pids=(), rank=0):
        """What tally is called with."""
        if not self.cell["trace"]:
            return ["bench", "allreduce", "--json", *self.work(pids), *self.cell["options"]]
        _, trace, *words = ["--steps" if word == "--iters" else word for word in self.work(pids, rank)]
        return ["bench", "replay", trace, "--json", *words, *self.cell["options"]]

    def lines(self, programs, names):
        found = []
        for name in names:
            for line in programs.said(name, ".out").splitlines():
                if line.startswith("{"):
                    found.append(json.loads(line))
        return found


def lines_of(job, programs, watch, names):
    programs.finish(job.timeout_s)
    return job.lines(programs, names), watch.whole()


class Way:
    def __init__(self, name, words, build="tree", lacks=None):
        self.name, self.words, self.build, self.lacks = name, words, build, lacks

    def run(self, job):
        daemons, programs = Programs(job.lab.folder), Programs(job.lab.folder)
        try:
            if job.cell["beside"]:
                daemons.start("multiply", [os.path.join(job.build, "bench", "multiply")])
                job.beside = [daemons.ready("multiply")]
            lines, whole = self.measure(job, daemons, programs)
        finally:
            programs.kill()
            daemons.kill()
        for line in job.lines(daemons, ["multiply"] if job.beside else []):
            whole["multiplied"] = line["multiplications"] / line["cpu_s"]
        return lines, whole


class Tally(Way):
    """aggregators: "hub": as a switch, in the unshaped hub; "dedicated": on a host more, behind a link as the workers';
    "colocated": a shard on each worker's host."""

    aggregators = "hub"

    def places(self, job):
        if self.aggregators == "hub":
            return [("hub", HUB)]
        at = [job.ranks] if self.aggregators == "dedicated" else range(job.ranks)
        return [(i, address(i)) for i in at]

    def measure(self, job, daemons, programs):
        tools, lab, ranks = os.path.join(job.builds[self.build], "tools"), job.lab, range(job.ranks)
        places, pids = self.places(job), []
        lanes = ["--lanes", str(job.cell["lanes"])] if job.cell["lanes"] else []
        for k, (where, listen) in enumerate(places):
            daemons.start("tallyd%d" % k, lab.at(where, [tools + "/tallyd", "--listen", listen, *lanes]))
        for k in range(len(places)):
            pids.append(daemons.ready("tallyd%d" % k))
        environment = {"TALLY_SIZE": str(job.ranks), "TALLY_JOB": "compare",
                       "TALLY_AGGREGATOR": ",".join(listen for _, listen in places)}
        watched = pids if knows_watch(tools) else ()
        watch, rank_pids = job.watch(programs, pids), []
        for i in ranks:
            command = [tools + "/tally", *job.bench(watched, i)]
            rank_pids.append(programs.start("rank%d" % i, lab.at(i, command), {**environment, "TALLY_RANK": str(i)}))
        if job.cell["has_timeline"]:
            sent = Sent(rank_pids[0])
            programs.finish(job.timeout_s)
            job.sent = sent.stop()
        return lines_of(job, programs, watch, ["rank0"])


class Dedicated(Tally):
    aggregators = "dedicated"


class Colocated(Tally):
    aggregators = "colocated"


_watch_known = {}


def knows_watch(tools):
    """Builds of before --watch do not say what the machine has worked while operations were timed."""
    if tools not in _watch_known:
        told = subprocess.run([tools + "/tally", "bench", "--help"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        _watch_known[tools] = "--watch" in told.stdout
    return _watch_known[tools]


class TallyHost(Way):
    """Ranks on one host, the aggregator in rank 0."""

    def measure(self, job, daemons, programs):
        tally = os.path.join(job.builds[self.build], "tools", "tally")
        watch = job.watch(programs)
        programs.start("run", [tally, "run", "-n", str(job.ranks), "--no-prefix", "--", tally, *job.bench()], {"TALLY_AGGREGATOR": ""})
        return lines_of(job, programs, watch, ["run"])


class Sparse(Way):
    """Tables of keys: bench/sparse.sh with hosts of its own; an operation is a batch of 1,000 pairs that a worker pushes and pulls."""

    def measure(self, job, daemons, programs):
        cell, watch = job.cell, job.watch(programs)
        batches = cell["iters"] // job.ranks
        settings = {"TALLY_BUILD": job.builds[self.build], "LAB": job.lab.name + "-sparse", "WAYS": "hot", "RUNS": "1", "LINK": cell["rate"],
                    "BURST": "128kb", "N": str(job.ranks), "BATCH": str(cell["elements"][0]), "BATCHES": str(batches)}
        programs.start("sparse", [os.path.join(HERE, "sparse.sh"), "--json"], settings)
        (line,), whole = lines_of(job, programs, watch, ["sparse"])
        took, pairs = line["ways"]["hot"], line["ways"]["hot"]["pairs"]
        if not took["verified_keys"] or pairs != batches * job.ranks * cell["elements"][0]:
            raise Failed("sparse.sh: %s" % line)
        each = took["seconds"] / (batches * job.ranks)
        times = {name: each * 1e6 for name in ("tat_us_median", "tat_us_p99", "tat_us_p1", "tat_us_min")}
        return [{"dtype": cell["dtype"], "elements": cell["elements"][0], "operations": batches * job.ranks, "timed_s": took["seconds"],
                 "cpu_s": took["cpu_s_per_m"]["workers"] * pairs / 1e6, "verified": True, "elements_wrong": 0, **times}], whole


class Gloo(Way):
    """algorithm: Gloo's name; congestion control by lab.set."""

    def __init__(self, name, words, algorithm, lacks):
        super().__init__(name, words, lacks=lacks)
        self.algorithm = algorithm

    def measure(self, job, daemons, programs):
        gloo, is_host = os.path.join(job.build, "bench", "gloo"), job.cell["host"]
        meet = tempfile.mkdtemp(prefix="meet-", dir=job.lab.folder)
        watch = job.watch(programs)
        for i in range(job.ranks):
            command = [gloo, str(i), str(job.ranks), meet, "127.0.0.1" if is_host else address(i), self.algorithm, "--",
                       *job.work()]
            programs.start("rank%d" % i, command if is_host else job.lab.at(i, command))
        found = lines_of(job, programs, watch, ["rank%d" % i for i in range(job.ranks)])
        shutil.rmtree(meet)
        return found


class Mpi(Way):
    """mpirun runs in the hub, which is no rank; the agent enters the namespace that an address says."""

    def __init__(self, name, words, options, lacks):
        super().__init__(name, words, lacks=lacks)
        self.options = options

    def agent(self, lab):
        path = os.path.join(lab.folder, "agent")
        with open(path, "w") as file:
            file.write('#!/bin/bash\nwhile [[ $1 == -* ]]; do shift; done\nworker=$((${1##*.} - 10))\nshift\n'
                       'exec ip netns exec %s-w$worker unshare --uts bash -c "hostname %s-w$worker; $*"\n' % (lab.name, lab.name))
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
        return path

    def measure(self, job, daemons, programs):
        program = [os.path.join(job.build, "bench", "mpi"), *job.work()]
        mpirun = ["mpirun.openmpi", *MPI, "-np", str(job.ranks), *self.options]
        if job.cell["host"]:
            command = [*mpirun, "--mca", "btl", "vader,self", *program]
        else:
            hosts = ",".join(address(i) + ":1" for i in range(job.ranks))
            network = [words for name in ("oob_tcp_if_include", "btl_tcp_if_include") for words in ("--mca", name, "10.55.0.0/24")]
            inner = [*mpirun, "-H", hosts, "--mca", "plm_rsh_agent", self.agent(job.lab), "--mca", "btl", "tcp,self", *network]
            command = job.lab.at("hub", ["unshare", "--uts", "bash", "-c", 'hostname "$1"; shift; exec "$@"', "bash",
                                         job.lab.name + "-hub", *inner, *program])
        watch = job.watch(programs)
        programs.start("mpirun", command)
        programs.finish(job.timeout_s)
        programs.orphans()
        return lines_of(job, programs, watch, ["mpirun"])


class Floor(Way):
    """bench/floor: what sockets and links take without any protocol."""

    def __init__(self, name, words, polls, lacks):
        super().__init__(name, words, lacks=lacks)
        self.polls = str(polls)

    def measure(self, job, daemons, programs):
        floor, hub = os.path.join(job.build, "bench", "floor"), HUB + ":7171"
        daemons.start("hub", job.lab.at("hub", [floor, "hub", hub, str(job.ranks), self.polls]))
        pid = daemons.ready("hub")
        watch = job.watch(programs, [pid])
        for i in range(job.ranks):
            programs.start("rank%d" % i, job.lab.at(i, [floor, "rank", hub, str(i), str(job.ranks), self.polls, "--",
                                                        *job.work([pid])]))
        return lines_of(job, programs, watch, ["rank%d" % i for i in range(job.ranks)])


def ways_make(builds):
    """All ways, by name. builds: {"tree": folder, "against": folder or None}."""
    def program(name):
        return None if os.access(os.path.join(builds["tree"], name), os.X_OK) else name

    gloo = program("bench/gloo") and "no build/release/bench/gloo: libgloo-dev and g++ (scripts/deps.sh bench), then make"
    mpi = program("bench/mpi") or (None if shutil.which("mpirun.openmpi") else "mpirun.openmpi")
    mpi = mpi and "no %s: Open MPI (scripts/deps.sh bench), then make" % mpi
    tally = program("tools/tally") and "no tools/tally in %s: make" % builds["tree"]
    floor = program("bench/floor") and "no bench/floor: make"
    against = None if builds.get("against") else "no --against"
    made = [
        Tally("tally", "tally, tallyd as a switch (its end of the links is not shared)", lacks=tally),
        Tally("against", "the other build of tally (--against)", "against", against),
        Dedicated("ps", "parameter server: tallyd on one more host, with one worker's link", lacks=tally),
        Colocated("ps-colocated", "parameter servers: a tallyd on each worker's host", lacks=tally),
        TallyHost("tally-host", "tally, ranks on one host, aggregator in rank 0", lacks=tally),
        Sparse("sparse", "tables of keys: tally-ps, and tallyd for hot keys (bench/sparse.sh)", lacks=tally),
        Sparse("sparse-against", "the same with the other build", "against", against),
        Mpi("mpi", "Open MPI, its own choice of algorithm", [], mpi),
        Mpi("mpi-ring", "Open MPI, forced ring", RING, mpi),
        Floor("floor", "a bare star over UDP, blocking (bench/floor)", 0, floor),
        Floor("floor-poll", "the same, polls and yields before it blocks", POLLS, floor),
    ]
    for short, algorithm in ("ring", "ring_chunked"), ("hd", "halving_doubling"), ("bcube", "bcube"):
        for congestion in "", "bbr", "cubic":
            name = "gloo-" + short + ("@" + congestion if congestion else "")
            made.append(Gloo(name, "Gloo, " + algorithm + (" over " + congestion if congestion else ""), algorithm, gloo))
    return {way.name: way for way in made}


__all__ = ["Failed", "Job", "ways_make"]
