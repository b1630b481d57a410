#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check-circles.py BUILD - files of a room do not need each other in a circle, as the linker sees it.

A file needs another if it calls a function or reads a variable of it. Files of a circle can only be read, tested and
changed together. Calls through pointers, which break a circle, are not seen: that is what they are for.
"""
import collections
import graphlib
import pathlib
import re
import subprocess
import sys

OBJECT = re.compile(r"(?:.*/)?(\w+)/[^/]+\.p/([^/]+)\.c\.o")
LINE = re.compile(OBJECT.pattern + r":[0-9a-f ]+ (\w) (\S+)")


def needed(lines):
    """{room: {file: {file that it needs: a symbol}}}, of lines of nm -A."""
    definers, wanted = collections.defaultdict(set), collections.defaultdict(set)
    for line in lines:
        room, file, kind, symbol = LINE.fullmatch(line).groups()
        if kind == "U":
            wanted[room, file].add(symbol)
        else:
            definers[room, symbol].add(file)
    needs = collections.defaultdict(dict)
    for (room, file), symbols in sorted(wanted.items()):
        needs[room][file] = {other: symbol for symbol in sorted(symbols)
                             for other in sorted(definers[room, symbol] - {file})}
    return needs


def circle(needs):
    """Files each of which needs the next, the first once more at the end; none if there is no circle."""
    try:
        graphlib.TopologicalSorter(needs).prepare()
    except graphlib.CycleError as error:
        return error.args[1][::-1]
    return []


def faults(lines):
    """What is wrong with these lines of nm, each in a line."""
    rooms = needed(lines)
    if not rooms:
        yield "no room's objects are there: build all"
    for room, needs in rooms.items():
        found = circle(needs)
        if found:
            yield f"{room}: a circle: " + ", ".join(
                f"{one} needs {needs[one][other]} of {other}" for one, other in zip(found, found[1:])
            ) + ": put what both need below them, or let the lower one tell the upper one instead of calling it"


def self_check():
    """A circle in one room, and none in another; and no rooms."""
    lines = [f"b/src/{room}/x.a.p/{file}.c.o:{kind}" for room, file, kind in (
        ("r", "a", "00 T a"), ("r", "a", "   U b"), ("r", "b", "00 T b"), ("r", "b", "   U c"), ("r", "c", "00 D c"),
        ("r", "c", "   U a"), ("r", "d", "   U a"), ("s", "a", "   U b"), ("s", "b", "00 T b"), ("s", "b", "   U x"))]
    said = [line.split(", ") for line in faults(lines)]
    assert [line[0].split(" ")[0] for line in said] == ["r:"], said
    assert len(said[0]) == 4 and "a needs b of b" in ", ".join(said[0]), said
    assert len(list(faults([]))) == 1


def main():
    build = pathlib.Path(sys.argv[1])
    objects = [path for folder in ("src/*/*.a.p", "tools/*.p", "bindings/*/*.so.p") for path in sorted(build.glob(folder + "/*.o"))
               if OBJECT.fullmatch(str(path)) and not re.search(r"_(test|fuzz|fake|fixture)\.c\.o$", path.name)]
    self_check()
    nm = subprocess.run(["nm", "-gA", *objects], capture_output=True, text=True, check=True) if objects else None
    found = list(faults(nm.stdout.splitlines() if nm else []))
    print("\n".join(found) or "no circle in any room")
    return bool(found)


sys.exit(main())
