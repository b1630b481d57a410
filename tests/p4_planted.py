#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""p4_planted.py PACKETS [NAME] - a bug in each family of rules, planted in src/p4 one at a time: random packets in step
with the C (tests/p4_play.py, p4_packets) find each of them, and nothing where nothing is planted. The programs are
compiled for 8 lanes, which is quicker, but for that of "halves": 32, with -DHALVES=1. Skipped (77) where p4_play.py is."""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
COUNT, SEED = "4000", "5"
# Family, program, file, what is there, what is there instead.
PLANTS = (
    ("R-WIRE-7", "dense", "admission.p4", "(WIRE_VERSION, WIRE_PROBE, _, 0): is_of", "(WIRE_VERSION, WIRE_PROBE, _, _): is_of"),
    ("R-SW-1", "dense", "admission.p4", "children |-| hdr.tally.child;", "children + 1 |-| hdr.tally.child;"),
    ("R-SW-2", "dense", "dense.p4", "(SAID_NONE, WAY_ASKS): stands(STANDS_ASKS);", ""),
    ("R-SW-4", "dense", "dense.p4", "(_, _, 0xffffffff, _, _, _, _): ANSWERS;", ""),
    ("R-SW-7", "dense", "dense.p4", "(_, SAID_ONE, SAID_ONE, _, _): widths_fit();", "(_, _, SAID_ONE, _, _): widths_fit();"),
    ("R-SW-8", "dense", "v1model.p4", "(int<32>)(a) > (int<32>)(b)", "(a) > (b)"),
    ("R-SW-15", "dense", "v1model.p4", "meta.bare = 0;", "meta.bare = meta.bare;"),
    ("halves", "dense", "dense.p4", "        meta.step = STEP_ADD;\n        EACH_BLOCK", "        EACH_BLOCK"),
    ("R-CHIP-1", "dense", "dense.p4", "missing_first, value = meta.others;", "missing_first, value = value & meta.others;"),
    ("R-CHIP-3", "dense", "dense.p4", "(_, SAID_ONE, _, 0, SAID_ONE, _, _): goes_round(PASS_LAST);",
     "(_, SAID_ONE, _, 0, SAID_ONE, _, _): says(SAY_HELD);"),
    ("R-CHIP-8", "dense", "egress.p4", "hdr.tally.exponent = hdr.answer.last;", "hdr.tally.exponent = hdr.tally.child;"),
    ("R-LAT-5", "latency", "latency.p4", "if (value.lo != hdr.tally.generation) { value.hi = 0; }", ""),
    ("R-LAT-6", "latency", "latency.p4", "(SAID_ONE, WAY_UPDATE, 1): rounds_early();", ""),
    ("R-LAT-8", "latency", "egress.p4", "(SAY_HELD, _, _, _, _): short_answer", "(SAY_HELD, _, _, _, _): untagged"),
)


def played(folder, program, packets, halves):
    """(exit status, what it says)."""
    lanes = "32" if halves else "8"
    done = subprocess.run([sys.executable, HERE / "p4_play.py", folder / f"{program}.p4", packets, COUNT, SEED, lanes],
                          env=os.environ | {"P4_LANES": lanes, "P4_HALVES": str(int(halves)), "P4_COMPILED": str(folder)},
                          capture_output=True, text=True, check=False)
    return done.returncode, done.stdout or done.stderr  # p4c may have a word on stderr after the last line


def is_right(name, program, file, old, new, packets):
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made) / "p4"
        shutil.copytree(HERE / "../src/p4", folder)
        text = (folder / file).read_text()
        if text.count(old) != 1 and old:
            print(f"{name}: {file} has {text.count(old)} times, not once: {old}")
            return False
        (folder / file).write_text(text.replace(old, new, 1) if old else text)
        status, said = played(folder, program, packets, name == "halves")
    if status == 77:
        return None
    lines = said.splitlines()
    found = status == 1 and bool(re.search(" [1-9][0-9]* failed, ", lines[-1]))
    print(f"{name}, {program}.p4: " + (f"found: {lines[0][:110]}" if found else lines[-1]))
    return found == bool(old) and (found or status == 0)


def main():
    packets, only = sys.argv[1], sys.argv[2:]
    todo = [("nothing planted", program, f"{program}.p4", "", "") for program in ("dense", "latency")]
    todo += [("halves", "dense", "dense.p4", "", ""), *PLANTS]
    todo = [one for one in todo if not only or one[0] in only]
    if not todo:
        sys.exit(f"p4_planted.py: {' '.join(only)}: no such name: see PLANTS")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        right = list(pool.map(lambda one: is_right(*one, packets), todo))
    if None in right:
        print("NOT HERE: bmv2 and p4c on PATH, and root, for tests/p4_play.py")
        return 77
    wrong = [one[0] for one, is_so in zip(todo, right) if not is_so]
    print(f"not as it must be: {', '.join(wrong)}" if wrong else "all as it must be")
    return bool(wrong)


sys.exit(main())
