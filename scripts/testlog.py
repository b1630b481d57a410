#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""testlog.py NAME FILE... - read meson's testlog.json: failures and skips to stderr, and
"PASSED FAILED SKIPPED LACKING" to stdout. A test that skips exits 77 and says "SKIP: what is missing"; those that
lack what Debian has, or do not say what, are LACKING."""

import json
import re
import sys

PASSED = ("OK", "EXPECTEDFAIL")
NO_PACKAGE = re.compile(r"\b(p4c|bmv2|GPU)\b")


def why(test):
    """The line with which a test explains its skip."""
    lines = (test.get("stdout", "") + test.get("stderr", "")).splitlines()
    return next((line[5:].strip() for line in lines if line.startswith("SKIP:")), "no reason given")


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
            if test["result"] in PASSED:
                passed += 1
            elif test["result"] == "SKIP":
                skipped += 1
                lacking += not NO_PACKAGE.search(why(test))
                print(f"skipped: {title}: {why(test)}", file=sys.stderr)
            else:
                failed += 1
                print(f"FAILED: {title} ({test['result']})", file=sys.stderr)
                for line in excerpt(test.get("stdout", "") + test.get("stderr", "")):
                    print("    " + line[:240], file=sys.stderr)
    print(passed, failed, skipped, lacking)


main(sys.argv[1], sys.argv[2:])
