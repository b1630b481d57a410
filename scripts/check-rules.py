#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check-rules.py - every rule of docs/protocol.md is there once, and is cited by the code that carries it out and by
what sees it broken: a test, a vector, the search or the simulator. What is cited anywhere is there. So is each
function and each test that docs/faults.md names.

A rule is cited by its whole name. A range, "R-SW-1 to R-SW-4", says what a file is about, and cites none of them.
"""
import pathlib
import re
import sys

RULES = "docs/protocol.md"
FAULTS = "docs/faults.md"
FOLDERS = "bench docs examples include lab scripts src tests tools".split()
NAME = re.compile(r"\bR-[A-Z]+-[0-9]+\b")
RANGE = re.compile(NAME.pattern + r"\s[\s*#]*to\s[\s*#]*" + NAME.pattern)
TEST = re.compile(r"src/.*_(test|fuzz)\.c|src/(search|sim)/.*\.[ch]|tests/.*(?<!\.md)")
CODE = re.compile(r"(src|tools|include)/.*(?<!_test|_fuzz|_fake)(?<!_fixture)\.([ch]|p4)")


def faults(files):
    """What is wrong with these {path: text}, each in a line."""
    rules = re.findall(rf"^\*\*({NAME.pattern})", files[RULES], re.M)
    yield from (f"{RULES}: {rule}: it is there twice: give the second one a number that no rule has had"
                for rule in sorted(set(rules)) if rules.count(rule) > 1)
    code, test = set(), set()
    for path, text in files.items():
        yield from (f"{path}: {rule}: {RULES} has no such rule: cite the one that is meant"
                    for rule in sorted(set(NAME.findall(text)) - set(rules)))
        cited = NAME.findall(RANGE.sub("", text))
        if TEST.fullmatch(path):
            test.update(cited)
        elif CODE.fullmatch(path):
            code.update(cited)
    yield from (f"{RULES}: {rule}: no code cites it: name it at the function that carries it out"
                for rule in rules if rule not in code)
    yield from (f"{RULES}: {rule}: no test cites it: name it at one that fails when it is broken, or write that"
                for rule in rules if rule not in test)


def lost(files):
    """What docs/faults.md names and no file has: each row ends with `path` `function` and `path` `test`."""
    rows = re.findall(r"^\| .*\|$", files[FAULTS], re.M)
    for row in rows:
        if re.match(r"\| what happens ", row):
            continue
        names = re.findall(r"`(\S+)` `(\w+)`", row)
        if len(names) != 2 or not NAME.search(row):
            yield f"{FAULTS}: not | what | what then | rule | `path` `function` | `path` `test` |: {row}"
        for path, name in names:
            # A definition begins its line, a case of the vectors too; a call does neither.
            if not re.search(rf"^(case |[a-zA-Z_].*\b){name}(\(|$)", files.get(path, ""), re.M):
                yield f"{FAULTS}: {path} has no {name}: name where it is now"


def self_check():
    """Ranges cite nothing, over a line's end too; tests and fixtures are no code; nor is a .md a test."""
    files = {RULES: "**@1 One.**\n**@2** Two\n**@3 Three.** @1\n**@4 Four.**\n**@4 Five.**\n",
             "src/a/b.c": "/* @1, @4: @2 to\n * @3 */", "src/a/b_test.c": "/* @1, @2, @30 */",
             "src/a/b_fixture.h": "@2", "src/sim/c.h": "@3", "tests/d.md": "@4"}
    said = list(faults({path: text.replace("@", "R-A-") for path, text in files.items()}))
    told = ["".join(re.search(r"R-A(-[0-9]+: )(no \w+|\w+)", line).groups()) for line in said]
    assert told == ["-4: it", "-30: docs", "-2: no code", "-3: no code", "-4: no test", "-4: no test"], said
    row = "| what happens |\n| a | b | @1 | `f.c` `%s` | `v.txt` `%s` |\n".replace("@", "R-A-")
    files = {"f.c": "static int does(int a)\n{\n\tcalls(a);", "v.txt": "case shows\n"}
    wrong = [len(list(lost(files | {FAULTS: row % names}))) for names in
             (("does", "shows"), ("calls", "shows"), ("does", "show"), ("doe", "shows"), ("", ""))]
    assert wrong == [0, 1, 1, 1, 1], wrong


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    files = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8", errors="replace")
             for folder in FOLDERS for path in sorted((root / folder).rglob("*")) if path.is_file()}
    self_check()
    found = list(faults(files)) + list(lost(files))
    print("\n".join(found) or "each rule is cited by code and by a test; each row of docs/faults.md names a function and a test")
    return bool(found)


sys.exit(main())
