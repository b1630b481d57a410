#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""header_test.py TALLY_H - what the Python package says of libtally is what tally.h says: structs, numbers, functions."""
import ctypes
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tally import _library, errors, memory, options  # noqa: E402

with open(sys.argv.pop(), encoding="utf-8") as file:
    HEADER = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
WIDTH = {"size_t": ctypes.c_size_t, "uint32_t": ctypes.c_uint32, "uint64_t": ctypes.c_uint64, "int": ctypes.c_int,
         "double": ctypes.c_double}


def fields(struct):
    """(name, size) of each field, as the header has them."""
    body = re.search(r"struct %s \{(.*?)\};" % struct, HEADER, re.S)[1]
    for line in filter(None, (" ".join(part.split()) for part in body.split(";"))):
        kind, name = re.fullmatch(r"(.*?)[ *]*(\w+)", line).groups()
        yield name, ctypes.sizeof(WIDTH[kind]) if "*" not in line and kind in WIDTH else ctypes.sizeof(ctypes.c_void_p)


def numbers(enum):
    body = re.search(r"enum %s \{(.*?)\};" % enum, HEADER, re.S)[1]
    return {name: int(number) for name, number in re.findall(r"TALLY_(\w+)\s*=\s*(\d+)", body)}


class Header(unittest.TestCase):
    def test_structs(self):
        for name, struct in (("options", _library.Options), ("op_options", _library.OpOptions), ("buffer", _library.Buffer),
                             ("stats", _library.Stats)):
            ours = [(field, ctypes.sizeof(kind)) for field, kind in struct._fields_]
            self.assertEqual(ours, list(fields(f"tally_{name}")), name)

    def test_operations_and_types(self):
        self.assertEqual({op.name: op.value for op in options.Op}, numbers("tally_op"))
        for name, number in numbers("tally_dtype").items():
            self.assertEqual(getattr(memory, name), number, name)
            self.assertIn(number, memory.BYTES)
        flags = {k.removeprefix("OP_"): v for k, v in numbers("tally_op_flags").items() if k != "OP_MORE"}
        self.assertEqual({n.name: n.value for n in options.Numbers if n}, flags)
        self.assertEqual({f"STREAM_{s.name}": s.value for s in options.Stream}, numbers("tally_stream"))

    def test_every_error_has_a_class(self):
        results = {v for k, v in numbers("tally_result").items() if k.startswith("ERR_")}
        self.assertEqual(set(errors._BY_RESULT), results)

    def test_every_call_has_its_arguments(self):
        calls = dict(re.findall(r"TALLY_API int (tally_\w+)\(([^;]*)\);", HEADER))
        for name, arguments in _library._ARGUMENTS.items():
            count = 0 if calls[name] == "void" else calls[name].count(",") + 1
            self.assertEqual(len(arguments), count, name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
