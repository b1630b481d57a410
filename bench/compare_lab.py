# SPDX-License-Identifier: Apache-2.0
"""compare_lab.py - the hosts that bench/compare measures on: namespaces in a star (lab/lab.sh), what they are set to, and
the processes that run there, with what they and the machine have worked meanwhile."""
import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from compare_read import process_ticks

HERE = os.path.dirname(os.path.abspath(__file__))
LAB_SH = os.path.join(HERE, "..", "lab", "lab.sh")
ALLOWED = "/proc/sys/net/ipv4/tcp_allowed_congestion_control"
CONGESTION = "/proc/sys/net/ipv4/tcp_congestion_control"
AUTOGROUP = "/proc/sys/kernel/sched_autogroup_enabled"
READY_S = 20
BUSY_PACKETS = 50  # in 10 ms: more than members say to each other
TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
CORES = os.sysconf("SC_NPROCESSORS_ONLN")
# A burst holds a super-packet, or else tc cuts it up, which costs the sender; without them it is 1 ms of 250 Mbit/s. The limit is
# above the sockets' buffers.
SHAPES = {"100mbit": ("80kb", "2mb"), "250mbit": ("80kb", "2mb"), "1gbit": ("128kb", "2mb"), "2.5gbit": ("128kb", "4mb"),
          "5gbit": ("256kb", "4mb")}
BURST_OF_PACKETS = "30kb"


class Failed(Exception):
    """A program did not do what was asked of it; with what it said."""


def machine_now():
    """(wall, idle, stolen) in seconds, the last two of all processors."""
    with open("/proc/stat") as file:
        fields = file.readline().split()
    return time.monotonic(), (int(fields[4]) + int(fields[5])) * TICK_S, int(fields[8]) * TICK_S


def processes_now():
    """Seconds that all processes have worked, and those that they waited for; without the kernel's threads."""
    ticks = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % pid) as file:
                is_kernel, of = process_ticks(file.read())
        except (OSError, ValueError):
            continue  # it has ended
        ticks += 0 if is_kernel else of
    return ticks * TICK_S


def adopt():
    """Processes of ours whose parents have ended become our children (PR_SET_CHILD_SUBREAPER): mpirun's daemons are such."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)


def cpu_of(pid):
    """Seconds that a process has worked, all its threads; the kernel's clock of it."""
    try:
        return time.clock_gettime(~pid << 3 | 2)
    except OSError:
        return 0.0


class Programs:
    """Processes that run at once: the last of them ends, or one fails, or the time is up. Then all are gone."""

    def __init__(self, folder):
        self.folder, self.running, self.worked_s = folder, {}, 0.0

    def start(self, name, command, environment=None):
        files = [open(os.path.join(self.folder, name + end), "wb") for end in (".out", ".err")]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=files[0], stderr=files[1], start_new_session=True,
                                   env={**os.environ, **(environment or {})})
        for file in files:
            file.close()
        self.running[process.pid] = (name, process)
        return process.pid

    def said(self, name, end=".err"):
        with open(os.path.join(self.folder, name + end), errors="replace") as file:
            return file.read()

    def ready(self, name, word="ready"):
        """Until it says so."""
        pid = next(pid for pid, (of, _) in self.running.items() if of == name)
        until = time.monotonic() + READY_S
        while word not in self.said(name):
            if time.monotonic() > until or self.running[pid][1].poll() is not None:
                raise Failed("%s is not ready: %s" % (name, self.said(name)[-500:].strip()))
            time.sleep(0.02)
        return pid

    def finish(self, seconds):
        """Waits for all; what they have worked goes to worked_s."""
        until, pause = time.monotonic() + seconds, 0.005
        while self.running:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
            if pid == 0:
                if time.monotonic() > until:
                    names = [name for name, _ in self.running.values()]
                    raise Failed("%s: not done after %d s" % (", ".join(names), seconds))
                time.sleep(pause)
                pause = min(0.1, 1.3 * pause)  # who wakes often takes from those he measures
                continue
            self.worked_s += usage.ru_utime + usage.ru_stime
            if pid not in self.running:
                continue
            name, process = self.running.pop(pid)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                raise Failed("%s: exit status %d: %s" % (name, process.returncode, self.said(name)[-800:].strip()))

    def orphans(self, seconds=1):
        """Waits for processes that were adopted; for programs without daemons beside them."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                pid, _, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            self.worked_s += usage.ru_utime + usage.ru_stime if pid else 0
            time.sleep(0 if pid else 0.01)

    def kill(self):
        for name, process in self.running.values():
            try:
                os.killpg(process.pid, signal.SIGTERM)
            except ProcessLookupError:
                pass
        until = time.monotonic() + 5
        for name, process in self.running.values():
            try:
                process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self.running = {}


class Kept:
    """Settings of the host (files of /proc/sys) that are changed while it measures; restore() gives them back."""

    def __init__(self):
        self.old = {}

    def get(self, path):
        with open(path) as file:
            return file.read().strip()

    def set(self, path, value):
        """Raises OSError where the kernel does not have it, or refuses."""
        old = self.get(path)
        if old != value:
            with open(path, "w") as file:
                file.write(value)
            self.old.setdefault(path, old)

    def restore(self):
        for path, value in self.old.items():
            with open(path, "w") as file:
                file.write(value)
        self.old = {}


class Lab:
    """The star, as it is now; what is asked for anew is only set if it differs."""

    def __init__(self):
        self.name = os.environ.get("LAB", "tally-compare-%d" % os.getpid())
        self.folder = tempfile.mkdtemp(prefix="tally-compare-")
        self.workers, self.now, self.kept = 0, {}, Kept()
        self.default = self.kept.get(CONGESTION)  # new namespaces have the host's

    def together(self):
        """Programs that start from now on share the processors alike. By itself the kernel shares them between sessions, and
        each of these programs has its own: a yield then gives way to nobody else."""
        try:
            self.kept.set(AUTOGROUP, "0")
        except OSError:
            pass  # this kernel has no such groups

    def sh(self, *words):
        try:
            subprocess.run([LAB_SH, *words], env={**os.environ, "LAB": self.name}, check=True, stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=120)
        except subprocess.CalledProcessError as error:
            raise Failed("lab.sh %s: %s" % (" ".join(words), error.stderr.strip()))

    def down(self):
        if self.workers:
            self.sh("down")
        self.workers, self.now = 0, {}

    def close(self):
        self.down()
        self.kept.restore()
        shutil.rmtree(self.folder, ignore_errors=True)

    def set(self, workers, rate, loss=0, offload=True, congestion=None):
        if self.workers != workers:
            self.down()
            self.workers = workers
            self.sh("up", str(workers))
        burst, limit = SHAPES.get(rate, ("128kb", "2mb"))
        shape = [rate, burst if offload else BURST_OF_PACKETS, limit]
        for what, value, words in (
                ("shape", shape, ["shape", *shape]),
                ("offload", offload, ["offload", "on" if offload else "off"]),
                ("loss", loss, ["loss", "%.5f" % loss if loss else "off"])):
            default = {"offload": True, "loss": 0}.get(what)
            if self.now.get(what, default) != value:
                self.sh(*words)
                self.now[what] = value
        congestion = congestion or self.default
        if self.now.get("congestion", self.default) != congestion:
            self.allow(congestion)
            for i in range(workers):
                set_to = ["sysctl", "-qw", "net.ipv4.tcp_congestion_control=" + congestion]
                if subprocess.run(self.at(i, set_to), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
                    raise Failed("TCP cannot run over %s on this kernel" % congestion)
            self.now["congestion"] = congestion

    def allow(self, congestion):
        """A namespace may only choose what the host allows to everybody: until close(), that too."""
        allowed = self.kept.get(ALLOWED).split()
        if congestion not in allowed:
            try:
                self.kept.set(ALLOWED, " ".join([*allowed, congestion]))
            except OSError:
                raise Failed("TCP cannot run over %s on this kernel" % congestion)

    def at(self, where, command):
        """The command, in the hub or in worker `where`."""
        return ["ip", "netns", "exec", self.name + ("-hub" if where == "hub" else "-w%d" % where), *command]


def address(i):
    return "10.55.0.%d" % (10 + i)


HUB = "10.55.0.1"


class Sent:
    """How many packets a process's host has sent, every 10 ms, until stop(): [ms, packets]. Of what it sends in a burst the
    kernel counts packets, but a super-packet as one: switch offloads off."""

    def __init__(self, pid):
        self.found, self.is_over, self.pid = [], threading.Event(), pid
        self.thread = threading.Thread(target=self.look)
        self.thread.start()

    def look(self):
        begin, before = time.monotonic(), None
        while not self.is_over.wait(0.01):
            try:
                with open("/proc/%d/net/dev" % self.pid) as file:
                    sent = next((int(line.split(":")[1].split()[9]) for line in file if line.strip().startswith("v:")), None)
            except OSError:
                return
            if before is not None and sent is not None:
                self.found.append([round(1000 * (time.monotonic() - begin)), sent - before])
            before = sent

    def stop(self):
        self.is_over.set()
        self.thread.join()
        busy = [i for i, (_, packets) in enumerate(self.found) if packets > BUSY_PACKETS] or [0]
        at = self.found[max(0, busy[0] - 2):busy[-1] + 3]
        return [[ms - at[0][0], packets] for ms, packets in at]


class Watch:
    """What the machine, and daemons beside the programs, have worked since it was made."""

    def __init__(self, programs, pids=()):
        self.programs, self.pids = programs, list(pids)
        self.processes_s, self.at = processes_now(), machine_now()
        self.before_s = sum(map(cpu_of, self.pids)) + time.process_time()

    def whole(self):
        wall, idle, stolen = (now - then for now, then in zip(machine_now(), self.at))
        daemons_s = sum(map(cpu_of, self.pids)) + time.process_time() - self.before_s
        processes_s = processes_now() - self.processes_s
        return {"wall_s": wall, "busy_s": max(0.0, wall * CORES - idle - stolen), "stolen_s": stolen, "processes_s": processes_s,
                "ours_s": self.programs.worked_s + daemons_s, "workers_s": self.programs.worked_s, "daemons_s": daemons_s}
