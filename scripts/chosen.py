#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""chosen.py BUILD suites [SUITE...]        what the tests of these suites run; no suite: what is installed
chosen.py BUILD targets|tests FILE...    of what is known of a change to these files in a minute: what to build, or
                                         which tests to run; on stderr which tests, of those that cover them, are
                                         left to `make test`, and for which files there is none

A unit test covers its room. Outside of rooms a test covers the files that its program is made of, and those that its
script is or names."""

import glob
import json
import os
import re
import sys

LONG_S = 120  # a test whose time-out is longer may take minutes
SLOW = {"from_c"}  # a minute and an empty Debian
ROOM = re.compile(r"(?:src/(\w+)|(tools)|tests/(vectors|fuzz|differ))/")
OUTSIDE = re.compile(r"(?:bench|bindings|examples|lab|tests)/(?!vectors/|fuzz/|differ/)")


def suites(test):
    return {suite.split(":")[-1] for suite in test["suite"]}


def stem(path):
    return os.path.splitext(os.path.relpath(path))[0]


def names(script, path):
    """Whether a script says the name of a file, or imports it."""
    with open(script, encoding="utf-8", errors="replace") as file:
        text = file.read()
    name, module = os.path.basename(path), os.path.basename(stem(path))
    return re.search(r"(?<![\w.-])%s(?![\w-])" % re.escape(name), text) or (
        path.endswith(".py") and re.search(r"^\s*(?:import|from) %s\b" % re.escape(module), text, re.M))


def users(path):
    """The file, and the scripts beside it that use it, also by way of each other."""
    found, new = set(), {path}
    beside = [file for kind in ("sh", "py") for file in glob.glob(f"{os.path.dirname(path)}/*.{kind}")]
    while new:
        found |= new
        new = {script for script in beside if script not in found and any(names(script, file) for file in new)}
    return found


def covering(told, path):
    """The tests of a file outside of rooms."""
    made = {target["id"] for target in told["targets"] for part in target["target_sources"]
            if stem(path) in map(stem, part.get("sources", ()))}
    uses = users(path)

    def does(test):
        script = os.path.relpath(os.path.realpath(test["cmd"][0]))
        is_script = script.endswith((".sh", ".py"))
        return made & set(test["depends"]) or script in uses or is_script and any(names(script, file) for file in uses)

    return [test for test in told["tests"] if (suites(test) & {"unit", "e2e"} or test["name"] in SLOW) and does(test)]


def of_change(told, paths):
    """The tests to run, those that take too long, and the files that no test covers."""
    rooms = {next(filter(None, found.groups())) for found in map(ROOM.match, paths) if found}
    covers = {path: {test["name"] for test in covering(told, path)} for path in filter(OUTSIDE.match, paths)}
    named = set().union(*covers.values())
    asked, long = [], []
    for test in told["tests"]:
        is_unit = suites(test) & {"unit", "threads"} and "e2e" not in suites(test)
        if test["name"] in SLOW or test["timeout"] > LONG_S and "e2e" in suites(test):
            if test["name"] in named:
                long.append(test["name"])
        elif "check" in suites(test) or is_unit and test["name"].split("-")[0] in rooms or test["name"] in named:
            asked.append(test)
    return asked, long, [path for path, names in covers.items() if not names]


def main(build, what, *words):
    told = {}
    for about in ("tests", "targets"):
        with open(f"{build}/meson-info/intro-{about}.json", encoding="utf-8") as file:
            told[about] = json.load(file)
    if what == "suites":
        tests = [test for test in told["tests"] if suites(test) & set(words)]
    else:
        tests, long, bare = of_change(told, words)
        if what == "tests":
            if long:
                print("left to `make test`: " + " ".join(long), file=sys.stderr)
            if bare:
                print("no test is known to cover: " + " ".join(bare), file=sys.stderr)
            print(*(test["name"] for test in tests))
            return
    needed = {program for test in tests for program in test["depends"]}
    has_all = what == "targets" or not words
    is_e2e = what == "targets" and any("e2e" in suites(test) for test in tests)  # a script says not all that it runs
    for target in told["targets"]:
        if target["id"] in needed or has_all and target["installed"] or is_e2e and target["build_by_default"]:
            print(*(os.path.relpath(name, build) for name in target["filename"]))


main(*sys.argv[1:])
