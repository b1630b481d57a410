#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""manpages.py FOLDER SECTION PAGES WORDS - LIBSVM rows of the manual pages below FOLDER, one a page: +1 if it is from
SECTION, else -1, then the words that are in it. At most PAGES of a section, evenly drawn. The file WORDS
gets the words: the n-th line is what n means. A row's place follows from a hash of its page's name."""
import glob
import gzip
import os
import re
import sys
import zlib

ROFF = re.compile(r"\\f\(..|\\f\[[^]]*\]|\\f.|\\s[-+]?\d|\\\*\(..|\\\(..|\\\[[^]]*\]|\\.")
WORD = re.compile(r"[a-z]{2,20}")
LENGTH = 4  # of each row, as a vector


def words_of(path):
    """None: not a page of its own, another name for one."""
    if os.path.islink(path):
        return None
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", errors="replace") as file:
        lines = file.read().splitlines()
    found, body = set(), 0
    for line in lines:
        if line.startswith(".so "):
            return None
        if line[:3] in (".TH", ".Dt", ".Dd", '.\\"', "'\\\""):
            continue  # the section stands there
        if line[:1] in ".'":
            line = line.partition(" ")[2]
        body += 1
        found.update(WORD.findall(ROFF.sub(" ", line.replace("\\-", " ")).lower()))
    return found if body > 5 else None


def main():
    folder, section, most, words_file = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    pages = []
    for at in sorted(glob.glob(os.path.join(folder, "man[1-9]"))):
        paths = sorted(os.listdir(at), key=lambda name: zlib.crc32(name.encode(errors="replace")))
        taken = 0
        for name in paths:
            words = words_of(os.path.join(at, name)) if taken < most else None
            if words:
                pages.append((zlib.crc32(name.encode(errors="replace")), name, at[-1] == section, words))
                taken += 1
    pages.sort(key=lambda page: page[:2])
    number = {word: i + 1 for i, word in enumerate(sorted(set().union(*(page[3] for page in pages))))}
    with open(words_file, "w") as file:
        file.writelines(word + "\n" for word in number)
    for _, _, is_from, words in pages:
        value = "%.4g" % (LENGTH * len(words) ** -0.5)
        print("%+d %s" % (1 if is_from else -1, " ".join("%d:%s" % (i, value) for i in sorted(number[word] for word in words))))


main()
