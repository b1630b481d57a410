#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""testlog.py NAME FILE... - read meson's testlog.json: failures and skips to stderr, and
"PASSED FAILED SKIPPED LACKING" to stdout. A later file has the last word on a test that is in several.
testlog.py --lacking FILE - the names of the tests that are LACKING.
A test that skips, all of it (exit status 77) or a part, says so in a line,

    SKIP: what is missing       which Debian has, or a kernel grants: it is skipped, and LACKING
    NOT HERE: what is missing   which no package brings: a processor's instructions, a larger host. It is listed, and
                                skipped only if that was all of it

and is LACKING if it does not say what."""

import json
import re
import sys

PASSED = ("OK", "EXPECTEDFAIL")
SAID = re.compile(r"(?:# )?(SKIP|NOT HERE): *(.*\S)")
CMOCKA = re.compile(r"\[[ =]*(RUN|SKIPPED|)[ =]*\] *(.*)")


def without(output):
    """What a test did without: in order, (word, what), each once."""
    found, is_told = {}, True
    for line in output.splitlines():
        said, cmocka = SAID.match(line), CMOCKA.match(line)
        if said:
            found[said.groups()] = is_told = True
        elif cmocka and cmocka[1] == "SKIPPED" and not is_told:
            found["SKIP", cmocka[2] + ": no reason given"] = True
        elif cmocka and cmocka[1] != "SKIPPED":
            is_told = not cmocka[1]  # what it lists in the end was told before
    return list(found)


def excerpt(output):
    """What says why a test failed, and its last lines; meson's log has all of it."""
    words = ("ERROR", "FAILED", "LINE   ", "SUMMARY", "runtime error", "FAIL:", "assert")
    lines = output.splitlines()
    return [line for line in lines[:-15] if any(word in line for word in words)][:40] + lines[-15:]


class Test:
    """A test that ran, as a line of the log tells."""

    def __init__(self, line):
        told = json.loads(line)
        self.name, self.result = told["name"], told["result"]
        self.output = told.get("stdout", "") + told.get("stderr", "")
        self.is_failure = self.result not in (*PASSED, "SKIP")
        self.lacks = [] if self.is_failure else without(self.output)
        if self.result == "SKIP" and not self.lacks:
            self.lacks = [("SKIP", "no reason given")]
        self.is_lacking = any(word == "SKIP" for word, _ in self.lacks)


def read(paths):
    """The tests of these logs, each as the last log that has it tells."""
    tests = {}
    for path in paths:
        with open(path, encoding="utf-8") as log:
            told = [Test(line) for line in log if line.strip()]
        own = {test.name: test for test in told}
        if len(own) < len(told):
            sys.exit(f"testlog.py: two tests of one name in {path}")
        tests.update(own)
    return tests.values()


def main(name, paths):
    passed = failed = skipped = lacking = 0
    for test in read(paths):
        title = f"{name} {test.name.split(' / ')[-1]}"
        if test.is_failure:
            failed += 1
            print(f"FAILED: {title} ({test.result})", file=sys.stderr)
            for line in excerpt(test.output):
                print("    " + line[:240], file=sys.stderr)
            continue
        lacking += test.is_lacking
        if test.is_lacking or test.result == "SKIP":
            skipped += 1
        else:
            passed += 1
        for word, what in test.lacks:
            print(f"{'skipped' if word == 'SKIP' else 'not here'}: {title}: {what}", file=sys.stderr)
    print(passed, failed, skipped, lacking)


if sys.argv[1] == "--lacking":
    print(*(test.name.split(" / ")[-1] for test in read(sys.argv[2:]) if test.is_lacking))
else:
    main(sys.argv[1], sys.argv[2:])
