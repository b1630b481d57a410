#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""share.py - how a stream of allreduces shares a link with others. Needs root; lab/lab.sh makes the hosts.

  share.py [--other cubic|bbr|reno|tally|none] [--way down|up] [--rate 250mbit] [--queue 8] [--burst 16kb]
           [--seconds 20] [--elements 25000000] [--ranks 2] [--out FILE.svg] [--json]

The link of worker 0 carries --rate each way, with a queue of --queue milliseconds (tbf's limit) at both ends; all else
is faster. Over it go a job of --ranks ranks, and for the seconds after the first two one TCP flow (--other: its
congestion control) from a host beside the job to worker 0 (--way down) or back (up), or a second job with a tallyd of
its own. What goes through is read every 100 ms: of TCP what its receiver has got, with the headers; of a job the bytes on
the link, less TCP's, or of two jobs what the links of their second ranks carry, as all ranks of a job get the same.
The shares are those of the seconds when both ran. Offloads are off: a packet is a packet."""
import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("TALLY_BUILD", os.path.join(HERE, "..", "build", "release"))
LAB = os.path.join(HERE, "..", "lab", "lab.sh")
PORT = 5201
STEP_S = 0.1
ALONE_S = 2
HEADERS = 1514 / 1448  # of Ethernet, IP and TCP with its timestamps


def lab(*words, **more):
    return subprocess.run([LAB, *words], check=True, **more)


def start(where, *words, **more):
    return subprocess.Popen([LAB, "exec", str(where), *words], **more)


def counters(device, column):
    for line in open("/proc/net/dev"):
        name, _, rest = line.partition(":")
        if name.strip() == device:
            return int(rest.split()[column])
    raise SystemExit("share.py: no device %s here" % device)


def tcp_send(address, control, seconds):
    """Inside a namespace: sends for so long. Whoever listens may not be there yet."""
    deadline = time.monotonic() + seconds
    flow = None
    while not flow:
        try:
            flow = socket.socket()
            flow.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
            flow.connect((address, PORT))
        except OSError:
            flow = None
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    block = bytes(1 << 16)
    try:
        while time.monotonic() < deadline:
            flow.sendall(block)
    except ConnectionError:
        pass  # who receives and watches has seen enough


def tcp_receive(got):
    listener = socket.create_server(("", PORT))
    flow, _ = listener.accept()
    room = bytearray(1 << 20)
    while count := flow.recv_into(room):
        got[0] += count


def watch(devices, seconds):
    """Inside a namespace: a line each 100 ms of what TCP has got here and what the devices have carried."""
    got = [0]
    threading.Thread(target=tcp_receive, args=(got,), daemon=True).start()
    begin = time.monotonic()
    for step in range(1, int(seconds / STEP_S) + 1):
        time.sleep(max(0, begin + step * STEP_S - time.monotonic()))
        print(time.monotonic() - begin, got[0], *[counters(name, int(column)) for name, column in devices], flush=True)


def job(running, name, ranks, port, scratch, options):
    """ranks: namespaces. Its processes are added to running."""
    aggregator = "10.55.0.1:%d" % port
    log = open(os.path.join(scratch, name + ".tallyd"), "w")
    running.append(start("hub", os.path.join(BUILD, "tools", "tallyd"), "--listen", aggregator, stderr=log))
    for _ in range(200):
        if "ready" in open(log.name).read():
            break
        time.sleep(0.05)
    else:
        raise SystemExit("share.py: tallyd is not ready: " + open(log.name).read())
    for rank, where in enumerate(ranks):
        environment = dict(os.environ, TALLY_RANK=str(rank), TALLY_SIZE=str(len(ranks)), TALLY_JOB=name,
                           TALLY_AGGREGATOR=aggregator)
        running.append(start(where, os.path.join(BUILD, "tools", "tally"), "bench", "allreduce", "--elements",
                             str(options.elements), "--dtype", "float32", "--warmup", "0", "--iters", "10000", "--no-check",
                             env=environment, stdout=subprocess.DEVNULL, stderr=log))


def end(processes):
    for process in processes:
        process.kill()
    for process in processes:
        process.wait()


def bits(rate):
    for word, factor in (("gbit", 1e9), ("mbit", 1e6), ("kbit", 1e3)):
        if rate.endswith(word):
            return float(rate[:-4]) * factor
    raise SystemExit("share.py: --rate %s: as 250mbit" % rate)


def shape(options):
    limit = int(bits(options.rate) * options.queue / 8000)
    for where, device in ((0, "v"), ("hub", "p0")):
        lab("exec", str(where), "tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", options.rate, "burst",
            options.burst, "limit", str(limit))


def measure(options, scratch):
    """Lines of time and bytes so far: of the job, of the other."""
    hosts = options.ranks + (options.ranks - 1 if options.other == "tally" else 1)
    lab("up", str(hosts))
    lab("offload", "off")
    shape(options)
    running = []
    try:
        job(running, "share-a", list(range(options.ranks)), 7171, scratch, options)
        if options.other == "tally":
            where, devices = "hub", ["p1:8", "p%d:8" % options.ranks]  # sent to the second ranks
        elif options.way == "down":
            where, devices = 0, ["v:0"]
        else:
            where, devices = "hub", ["p0:0"]
        watcher = start(where, sys.executable, os.path.abspath(__file__), "watch", str(options.seconds + ALONE_S),
                        *devices, stdout=subprocess.PIPE, text=True)
        running.append(watcher)
        time.sleep(ALONE_S)
        if options.other == "tally":
            job(running, "share-b", [0] + list(range(options.ranks, hosts)), 7181, scratch, options)
        elif options.other != "none":
            sender, to = (hosts - 1, "10.55.0.10") if options.way == "down" else (0, "10.55.0.1")
            running.append(start(sender, sys.executable, os.path.abspath(__file__), "send", to, options.other,
                                 str(options.seconds)))
        rows = [[float(cell) for cell in line.split()] for line in watcher.communicate()[0].splitlines()]
    finally:
        end(running)
    if options.other == "tally":
        return [(row[0], row[2], row[3]) for row in rows]
    return [(row[0], row[2] - row[1] * HEADERS, row[1] * HEADERS) for row in rows]


def rates(rows):
    """(time, Mbit/s of the job, of the other) of each step."""
    return [(b[0], *[(b[i] - a[i]) * 8e-6 / (b[0] - a[0]) for i in (1, 2)]) for a, b in zip(rows, rows[1:])]


def draw(path, steps, options, words):
    script = "set terminal svg size 900,420; set output '%s'; set grid; set yrange [0:*]; set xlabel 's'\n" % path
    script += "set ylabel 'Mbit/s'; set key above; set title '%s' noenhanced\n$d << END\n" % words
    script += "".join("%.3f %.3f %.3f\n" % step for step in steps) + "END\n"
    script += "plot $d using 1:2 with lines title 'tally', $d using 1:3 with lines title '%s'\n" % (
        "another tally" if options.other == "tally" else options.other)
    subprocess.run(["gnuplot"], input=script, text=True, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--other", choices=["cubic", "bbr", "reno", "tally", "none"], default="cubic")
    parser.add_argument("--way", choices=["down", "up"], default="down")
    parser.add_argument("--rate", default="250mbit")
    parser.add_argument("--queue", type=float, default=8)
    parser.add_argument("--burst", default="16kb")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--elements", type=int, default=25000000)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--out")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    os.environ.setdefault("LAB", "tally-share-%d" % os.getpid())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started ends, and the hosts go
    with tempfile.TemporaryDirectory() as scratch:
        try:
            rows = measure(options, scratch)
        finally:
            lab("down")
    steps = rates(rows)
    both = [step for step in steps if step[0] > ALONE_S + 1]
    means = [sum(step[i] for step in both) / len(both) for i in (1, 2)]
    share = means[0] / sum(means)
    words = "%s, queue %g ms, %s, tally beside %s: %.1f and %.1f Mbit/s, so %.1f %%" % (
        options.rate, options.queue, options.way, options.other, *means, 100 * share)
    if options.out:
        draw(options.out, steps, options, words)
    if options.json:
        print(json.dumps({"rate": options.rate, "queue_ms": options.queue, "way": options.way, "other": options.other,
                          "seconds": options.seconds, "tally_mbit": means[0], "other_mbit": means[1], "share": share,
                          "steps": steps}))
    else:
        print(words)


if __name__ == "__main__":
    if sys.argv[1:2] == ["send"]:
        tcp_send(sys.argv[2], sys.argv[3], float(sys.argv[4]))
    elif sys.argv[1:2] == ["watch"]:
        watch([name.split(":") for name in sys.argv[3:]], float(sys.argv[2]))
    else:
        main()
