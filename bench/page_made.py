# SPDX-License-Identifier: Apache-2.0
"""page_made.py - made results for page_test.py: what page.sh leaves in a folder, with no number in it twice, so that what
is under another's label has another's value."""
import json
import os
import statistics

# What tells runs apart, and what is the same in all of a file's.
SHARED = set("run epoch ranks micro workers hub_bps rows features classes batch nonzeros operations hot_keys sampled_keys "
             "sample elements".split())
PROCESSORS = 3
MACHINE = ["a processor", str(PROCESSORS), "Linux 6", "abc123", "2026-01-01 00:00:00 UTC"]
ORIGIN = "# %s2026-01-01 00:00:00 UTC to 2026-01-01 00:00:01 UTC, load 0.10 to 0.20"
_count = 0
_seen = set()


def fresh():
    global _count
    _count += 1
    assert _count < 9973
    return 100.3 + _count * 617 % 9973


def whole():
    return int(fresh())


def part():
    """Of 1; two that are made one after the other are far apart."""
    fresh()
    return _count * 0.6180339887 % 1


def numbers(made, shared):
    if isinstance(made, dict):
        for name, value in made.items():
            yield from numbers(value, shared) if name not in shared else ()
    elif isinstance(made, (list, tuple)):
        for value in made:
            yield from numbers(value, shared)
    elif type(made) in (int, float) and made and made == made:  # not what is nothing, or no number
        yield made


def put(out, name, lines, status=0, log="", quick=False, runs=None, shared=()):
    """A section as page.sh leaves it; runs: {(data, way): [lines of each run]}; shared: what is alike in them on purpose."""
    at = os.path.join(out, name)
    os.makedirs(at)
    for of, all_lines in (runs or {}).items():
        for i, one in enumerate(all_lines):
            with open(os.path.join(at, "%s.%s.%d.json" % (*of, i + 1)), "w") as file:
                file.writelines(json.dumps(line) + "\n" for line in one)
    found = list(numbers([lines, list((runs or {}).values())], SHARED.union(shared)))
    assert len(set(found)) == len(found) and not _seen & set(found), "%s has a number twice" % name
    _seen.update(found)
    output = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    files = {"status": status, "output": output, "log": log, "command": "bench/measure " + name,
             "begin": "2026-01-01 00:00:00 UTC\n0.10", "end": "2026-01-01 00:00:01 UTC\n0.20"}
    if quick:
        files["quick"] = ""
    for file, words in files.items():
        with open(os.path.join(at, file), "w") as to:
            to.write("%s\n" % words)


def origin(*names, quick=False):
    return [("pre", ["bench/measure " + name + "\n" + ORIGIN % ("QUICK: " if quick else "")]) for name in names]


def middle(values):
    values = list(values)
    return statistics.median(values) if values else None


def tenth(number):
    return "-" if number is None else "%.1f" % number


def percent(number, digits=1):
    return "%.*f %%" % (digits, 100 * number)
