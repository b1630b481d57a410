#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""embed.py NAME INPUT OUTPUT: a C file with INPUT's bytes as NAME[], and NAME_bytes."""
import sys

name, source, target = sys.argv[1:]
with open(source, "rb") as file:
    data = file.read()
with open(target, "w", encoding="ascii") as file:
    file.write("#include <stddef.h>\n")
    file.write("extern const unsigned char %s[];\nextern const size_t %s_bytes;\n" % (name, name))
    file.write("_Alignas(8) const unsigned char %s[] = {%s};\n" % (name, ",".join(map(str, data))))
    file.write("const size_t %s_bytes = sizeof(%s);\n" % (name, name))
