#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""testlog.py NAME FILE... - read meson's testlog.json: failures and skips to stderr, and
"PASSED FAILED SKIPPED LACKING" to stdout. A test that skips, all of it (exit status 77) or a part, says so in a line,

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


def main(name, paths):
    passed = failed = skipped = lacking = 0
    for path in paths:
        with open(path, encoding="utf-8") as log:
            tests = [json.loads(line) for line in log if line.strip()]
        for test in tests:
            title = f"{name} {test['name'].split(' / ')[-1]}"
            output = test.get("stdout", "") + test.get("stderr", "")
            if test["result"] not in (*PASSED, "SKIP"):
                failed += 1
                print(f"FAILED: {title} ({test['result']})", file=sys.stderr)
                for line in excerpt(output):
                    print("    " + line[:240], file=sys.stderr)
                continue
            lacks = without(output)
            if test["result"] == "SKIP" and not lacks:
                lacks = [("SKIP", "no reason given")]
            is_lacking = any(word == "SKIP" for word, _ in lacks)
            lacking += is_lacking
            if is_lacking or test["result"] == "SKIP":
                skipped += 1
            else:
                passed += 1
            for word, what in lacks:
                print(f"{'skipped' if word == 'SKIP' else 'not here'}: {title}: {what}", file=sys.stderr)
    print(passed, failed, skipped, lacking)


main(sys.argv[1], sys.argv[2:])
