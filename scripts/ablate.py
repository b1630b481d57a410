#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ablate.py - the checks of tests/ablations.txt taken out of copies of the sources, and the bugs of tests/plants.txt
put in: the environment chooses which, ABLATE=NAME. The sources themselves know nothing of it.

  ablate.py                      every change of the tables fits, at one place each
  ablate.py --tree DIR           a copy of all that git knows of, in which any change can be made
  ablate.py FILE COPY [DEPFILE]  a copy of one source"""
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TABLES = ("tests/ablations.txt", "tests/plants.txt")
# What a changed copy begins with. The programs for the kernel keep all checks.
HEAD = """#include <stdbool.h>
#ifndef ABLATED
#ifdef __bpf__
#define ABLATED(name) 0
#else
#include <stdlib.h>
#include <string.h>
__attribute__((weak)) const char *ablate_chosen = "";
__attribute__((constructor)) static void ablate_choose(void)
{
	if (getenv("ABLATE"))
		ablate_chosen = getenv("ABLATE");
}
#define ABLATED(name) (strcmp(ablate_chosen, #name) == 0)
#endif
#endif
#line 1
"""


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, text):
    """Not if it is so already: what is compiled stays."""
    if not os.path.exists(path) or read(path) != text:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def rows():
    return "".join(read(os.path.join(TOP, table)) for table in TABLES)


def changes():
    """(name, path, function, words before, words after) of each change of the tables."""
    name = None
    for line in rows().replace("\n\t\t", " ").splitlines():
        if re.match(r"[A-Z]", line):
            name = line.split()[0]
        elif line.startswith("\t"):
            match = re.fullmatch(r"\t(\S+) (\w+): (.+) => (.+)", line)
            if not match:
                sys.exit(f"{name}: not FILE FUNCTION: WORDS => WORDS: {line.strip()}")
            file, function, old, new = match.groups()
            path = "src/" + file if os.path.exists(os.path.join(TOP, "src", file)) else file
            yield name, path, function, old, "" if new == "(dropped)" else new


def places(text, function, words):
    """(start, end) of the words in the function, wherever its lines are broken."""
    pattern = r"\s+".join(map(re.escape, words.split()))
    pattern = (r"\b" if re.match(r"\w", words) else "") + pattern + (r"\b" if re.search(r"\w$", words) else "")
    for body in re.finditer(r"^(?:\w[^\n;]*\W)?%s\([^;{}]*\)\n\{\n.*?^\}" % function, text, re.M | re.S):
        for match in re.compile(pattern).finditer(text, *body.span()):
            yield match.span()


def chosen(name, old, new):
    """Old or new, as the environment has it: statements, or a value, or what is asked in `if (value)`."""
    if old[-1] in ";}":
        return f"{{ if (ABLATED({name})) {{ {new} }} else {{ {old} }} }}"
    was, now = (re.fullmatch(r"(if \()(.*)(\)( \{)?)", words, re.S) for words in (old, new))
    if was:
        return was[1] + chosen(name, was[2], now[2]) + was[3]
    return f"(ABLATED({name}) ? ({new}) : ({old}))"


def ablated(path, wanted):
    """The text of the file with all its changes, of which one may be inside of another; as it is, without any."""
    text, spans, bad = read(os.path.join(TOP, path)), [], []
    for name, _, function, old, new in wanted:
        found = list(places(text, function, old))
        if len(found) != 1:
            bad.append(f"{name}: {path} {function}: {len(found)} places, not 1: {old}")
        spans += [(start, end, name, new) for start, end in found]
    if bad:
        sys.exit("\n".join(bad))

    def woven(start, end, inside):
        at, out = start, ""
        while inside:
            first, last, name, new = inside.pop(0)
            within = [inside.pop(0) for span in inside[:] if span[1] <= last]
            if any(span[0] < last < span[1] for span in inside):
                sys.exit(f"{name}: {path}: its words overlap with another's")
            out += text[at:first] + chosen(name, woven(first, last, within), new)
            at = last
        return out + text[at:end]
    return HEAD + woven(0, len(text), sorted(spans, key=lambda s: (s[0], -s[1]))) if spans else text


def by_path():
    table = {}
    for change in changes():
        table.setdefault(change[1], []).append(change)
    return table


def tree(top):
    """Copies what has changed; what is not there any more goes."""
    listed = subprocess.run(["bash", "-c", ". scripts/tree.sh && files ."], cwd=TOP, check=True, capture_output=True,
                            text=True).stdout
    paths = [path for path in listed.split("\0") if os.path.isfile(os.path.join(TOP, path))]
    paths = [path for path in paths if path not in TABLES]  # the copies have no more to be changed
    table = by_path()
    for path in paths:
        source, copy = os.path.join(TOP, path), os.path.join(top, path)
        if path in table:
            write(copy, ablated(path, table[path]))
        elif not os.path.exists(copy) or os.stat(copy).st_mtime != os.stat(source).st_mtime:
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            subprocess.run(["cp", "-p", source, copy], check=True)
    for folder, _, names in os.walk(top):
        for name in names:
            copy = os.path.join(folder, name)
            if os.path.relpath(copy, top) not in paths:
                os.remove(copy)


def main(arguments):
    if not arguments:
        for path, wanted in by_path().items():
            ablated(path, wanted)
        names, done = re.findall(r"^[A-Z]\w+", rows(), re.M), [name for name, *_ in changes()]
        for name in names:
            if names.count(name) != 1 or name not in done:
                sys.exit(f"{name}: a second time, or nothing is changed")
        print(f"{len(names)} checks can be taken out, or bugs put in, by {len(done)} changes")
    elif arguments[0] == "--help":
        print(__doc__)
    elif arguments[0] == "--tree":
        tree(arguments[1])
    else:
        path = os.path.relpath(os.path.abspath(arguments[0]), TOP)
        write(arguments[1], ablated(path, by_path().get(path, [])))
        os.utime(arguments[1])  # it is up to date
        if arguments[2:]:
            tables = " ".join(os.path.join(TOP, table) for table in TABLES)
            write(arguments[2], f"{arguments[1]}: {tables} {os.path.abspath(__file__)}\n")


main(sys.argv[1:])
