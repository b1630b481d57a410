#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""constants.py - what the P4 programs take from the C: the enums of wire.h and of switch.h's verdicts, in P4.

  constants.py           writes constants.p4
  constants.py --check   fails if it is not what the C has"""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
WIDTHS = {"WIRE_EXPONENT_UNKNOWN": 16, "WIRE_CHILD_OTHER": 16}


def enums(text):
    """(name, value) of each constant of its enums."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    known = {}
    for body in re.findall(r"enum(?: \w+)? \{(.*?)\};", text, re.S):
        following = 0
        for entry in filter(None, (part.strip() for part in body.split(","))):
            name, _, value = (part.strip() for part in entry.partition("="))
            known[name] = eval(value, {}, known) if value else following  # pylint: disable=eval-used
            following = known[name] + 1
            yield name, known[name]


def constants():
    wire = dict(enums((HERE / "../core/shared/wire.h").read_text()))
    switch = dict(enums(re.search(r"enum switch_verdict \{.*?\};", (HERE / "../core/dense/switch.h").read_text(),
                                  re.S)[0]))
    yield "/* SPDX-License-Identifier: Apache-2.0 */\n/* Made by constants.py of core/shared/wire.h and core/dense/switch.h. */\n"
    for name, value in list(wire.items()) + list(switch.items()):
        if name.endswith(("_END", "_COUNT")):
            continue
        width = WIDTHS.get(name, 32 if re.search("BYTES|WIRE_(?!FAULT).*LANES|_AT|SHIFT", name) else 8)
        if re.fullmatch("WIRE_(UPDATE|PROBE|RESULT|HELD|ACK|CONFIRM|NEED|HELLO|WELCOME|VERSION)", name):
            width = 4
        yield f"const bit<{width}> {name} = {value};\n"


def apart():
    """What the control of bmv2 and the programs say differently."""
    header = dict(enums("enum {" + (HERE / "../dataplane/chip_bmv2.h").read_text().partition("enum {")[2]))
    for file, name, here in (("headers", "LANES", "LANES"), ("dense", "SLOTS", "SLOTS"), ("latency", "SLOTS", "LATENCY_SLOTS"),
                             *(("forward", name, name) for name in ("CPU_PORT", "FLOOD_GROUP", "FLOOD_REPLICA"))):
        said = re.findall(rf"(?m)^(?:#define|const bit<\d+>) {name} (?:= )?(\w+);?$", (HERE / f"{file}.p4").read_text())
        if [int(number, 0) for number in said] != [header["CHIP_BMV2_" + here]]:
            yield f"{name}: {said} in src/p4/{file}.p4, {header['CHIP_BMV2_' + here]} in src/dataplane/chip_bmv2.h"


def main():
    path, text = HERE / "constants.p4", "".join(constants())
    if sys.argv[1:] != ["--check"]:
        path.write_text(text)
    elif any(apart()):
        sys.exit("\n".join(apart()))
    elif path.read_text() != text:
        sys.exit(f"{path}: not what core/shared/wire.h and core/dense/switch.h have: run src/p4/constants.py")


main()
