#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mutants.py - change the code in many small ways, one at a time, and see who notices.

All mutants of core are compiled into one build (build/mutants), and those of the rooms around it into another: each
place asks `MUTANT(number)`, and MUTANT in the environment chooses. The tests judge them (SCOPES says which): only
those that run the place, the quickest first, and who fails first has killed the mutant. Those that live are listed;
tests/mutants.txt says why some may. docs/mutants.md says how to read this. Exit status: 0 if at least 90 % of core's
are killed, and 85 % of the others."""
import argparse
import collections
import concurrent.futures
import functools
import hashlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EXCUSES = os.path.join(TOP, "tests/mutants.txt")
VECTORS = "tests/vectors_test"
VECTORS_SPARSE = "tests/vectors_sparse_test"
SIM = "src/sim/sim_main"
SEARCH = "src/search/tally-search"
SIMS = ("--seeds 1..2", "--scenario latency --seeds 1..8", "--scenario every --packets 2500 --seeds 1..40",
        "--seeds 3..20", "--scenario latency --seeds 9..100", "--list tests/sim/seeds.txt")
SLOW = 30  # of the clock for a second of the processor, on a machine that others use: what takes longer sleeps
PATIENCE = 120  # seconds of the clock for a judge that waits for others, without a mutant: what takes longer hangs
KERNEL = "dataplane/xdp/"  # programs for the kernel: what has no environment is told its mutant when it is built
LOADERS = re.compile(r"(bpf|bpf_latency|bpf_hook|hook|hook_filters)$")  # tests that load these
ROOT = re.compile(KERNEL + r"|dataplane/hook_tc\.c")  # what these tests alone run, which only root may
NO_LINE = 1000000  # and more: numbers of lines that no file has
LEAST = 3  # mutants of each file
PASSES, FAILS, HANGS, SKIPS, REFUSED = "passes", "fails", "hangs", "skips", "refused"
UNDECIDED = "the time was not enough"
NO_REASON = {True: "no reason is known", False: "no reason is known, and no judge runs it"}

OTHER = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&"}
OPERATOR = {"+": "-", "-": "+", "&": "|", "|": "&", "*": "+", "/": "*", "%": "/", "<<": ">>", ">>": "<<", "^": "&",
            "+=": "-=", "-=": "+=", "|=": "&=", "&=": "|=", "<<=": ">>=", ">>=": "<<=", "^=": "|="}
OPERATORS = re.compile("(?<= )(" + "|".join(re.escape(o) for o in sorted([*OTHER, *OPERATOR], key=len, reverse=True)) +
                       ")(?= )")
CONSTANT = re.compile(r"(?<![\w.\[])(?:(0x[0-9a-f]+|\d+)(?:u|ull)?|(true|false)|([A-Z][A-Z0-9]*_[A-Z0-9_]*))(?![\w.(])")
LEAVES = re.compile(r"(break|continue|return);")
NOT_STATEMENTS = re.compile(r"(if|for|while|do|else|return|switch|case|default|break|continue|goto|struct|union|"
                            r"enum|const|volatile|static|bool|char|int|unsigned|void|float|double|long|va_list|\w+_t|"
                            r"CORE_ASSERT|_Static_assert|assert)\b|[a-z]\w* \**\w+( =|;|,|\[)")

Mutant = collections.namedtuple("Mutant", "number file line function kind before after")
Judge = collections.namedtuple("Judge", "who command environment seconds guard seen digest")

# What is compiled into one build, and how it is judged.
#   rooms, left_out  under src/; the files in which nothing is changed
#   first            the number before that of the first mutant
#   percent          to be killed
#   options          of meson
#   tests, ours      meson's tests that judge; whether the golden packets, the simulator and the search do, too
#   memory           of a judge
#   quick, together  seconds of the processor: what takes longer does not judge; nor do the slowest of those that run a
#                    place, beyond this
#   seconds          of the processor: the longest that one mutant may take
#   waits            judges sleep, and wait for others: what has hung is told by the clock. A busy machine might disturb
#                    them. So they must pass three times beforehand, twice beside themselves; to kill, fail twice, and
#                    pass without the mutant after that.
Scope = collections.namedtuple(
    "Scope", "name rooms left_out first percent options tests ours memory quick together seconds waits")
SCOPES = (
    Scope(name="core", rooms=("core/shared", "core/dense", "core/latency", "core/sparse", "core/job",
                                "core/kv"),
          left_out=re.compile(r".*_(test|fuzz|fixture|shadow|model)\.|(text|env)\."),
          first=0, percent=90, options=(), tests=re.compile(r"core-"), ours=True, memory=2 << 30, quick=8,
          together=24, seconds=60, waits=False),
    Scope(name="rooms", rooms=("control", "dataplane", "dataplane/xdp", "files", "glm", "hot", "kv", "kvlib", "lib",
                               "ps", "server", "simd", "util"),
          left_out=re.compile(r".*_(test|fuzz|fixture)\.|(kv_fake|kv_draw|fake_link|exchange_mpi|neon)\."),
          first=10000, percent=85, options=("-Doptimization=1", "-Ddebug=false"),
          tests=re.compile(r"(control|dataplane|files|glm|hot|kv|kvlib|lib|ps|server|simd|util|fuzz)-|%s|" %
                           LOADERS.pattern + r"e2e-(allreduce|api|failures-death|glm|groups|inspect|latency|pairs)$"),
          ours=False, memory=2 << 30, quick=8, together=60, seconds=120, waits=True),
)


def blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def mask(text):
    """The text with all that is not code blanked, every position kept: comments, strings and characters, preprocessor
    lines."""
    return re.sub(r"""/\*.*?\*/|//[^\n]*|'(?:\\.|[^'\\])'|"(?:\\.|[^"\\])*"|^[ \t]*#(?:\\\n|[^\n])*""",
                  blank, text, flags=re.S | re.M)


def closing(text, at):
    """Where the bracket that opens at `at` closes."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if depth == 0:
            return i
    raise ValueError("a bracket never closes")


def end_of(text, at):
    """Where the statement that begins at `at` has its semicolon; where it begins if it has none."""
    start = at
    while text[at] != ";":
        if text[at] in ")]}":
            return start
        at = closing(text, at) if text[at] in "([{" else at
        at += 1
    return at


def has_comma(text):
    """Whether there is a comma outside of brackets."""
    at = 0
    while at < len(text):
        if text[at] == ",":
            return True
        at = closing(text, at) if text[at] in "([{" else at
        at += 1
    return False


def functions(text):
    """(name, start, end) of the bodies of functions: braces in the first column, after a line that ends in ')'."""
    for match in re.finditer(r"^(?:SEC\(\s*\)\n)?\w[^\n;]*?(\w+)\([^;{}]*\)\n\{\n", text, re.M):
        yield match.group(1), match.end(), text.index("\n}", match.end() - 1)


def is_last(text, start, stop):
    """Whether a switch ends after this `break`, with or without it: only labels follow, and a `break`."""
    indent = re.match(r"\t+", text[start:]).group()[1:]
    label = re.findall(r"^%s\S.*$" % indent, text[:start], re.M)[-1].strip()
    ends = re.match(r";\s*(((case \w+|default):\s*)+break;\s*)?\}", text[stop:])
    return label.startswith(("case", "default")) and bool(ends)


def places(text, first, last):
    """(kind, start, end) of all conditions, values and statements of one function."""
    for match in re.compile(r"\b(if|while) \(").finditer(text, first, last):
        yield "condition", match.end(), closing(text, match.end() - 1)
    for match in re.compile(r"\bfor \(").finditer(text, first, last):
        start = end_of(text, match.end()) + 1
        yield "condition", start, end_of(text, start)
    for match in re.compile(r"\breturn ").finditer(text, first, last):
        yield "value", match.end(), end_of(text, match.end())
    for match in re.compile(r"^\t+(?=[a-z*(]|\+\+|--)", re.M).finditer(text, first, last):
        start = match.end()
        before, line, stop = text[:match.start()].rstrip(), text[start:text.index("\n", start)], end_of(text, start)
        if before[-1:] not in ";{}:)" and not before.endswith("else") or line.startswith("text_"):
            continue  # in the middle of something; words
        if re.match(r"(\(void\)\w+(, )?)+;", line):
            continue  # for the compiler
        if LEAVES.match(line):
            if not re.match(r";\s*else\b", text[stop:]) and not is_last(text, match.start(), stop):
                yield "leaves", start, stop
        elif NOT_STATEMENTS.match(line):
            value = re.match(r"[\w *]*?\w+ = (?!\{)", text[start:stop])
            if value and not line.startswith(("static", "for", "return")):
                start += value.end()
                if not has_comma(text[start:stop]):  # not `int a = 1, b = 2;`
                    yield "value", start, stop
        elif stop > start and not line.rstrip().endswith(":"):
            yield "statement", start, stop


def another(constant):
    number, truth, name = constant.groups()
    if number:
        return "(%s + 1)" % constant.group()
    if truth:
        return {"true": "false", "false": "true"}[truth]
    return "(%s %s)" % (name, "* 2" if name.endswith(("_NS", "_US", "_MS", "_S")) else "+ 1")


def operands(code, match):
    """The two sides of a comparison in a condition or a choice, without casts."""
    left = re.split(r"&&|\|\||\?|(?<![=!<>])=(?!=)|\(\((?=\w)", code[:match.start()])[-1]
    right = re.split(r"&&|\|\||\?", code[match.end():])[0]
    return [squeeze(side) for side in (left, right)]


def squeeze(code):
    return " ".join(re.sub(r"\(u?int\d+_t\)", "", code).split())


def is_clamp(code, match, behind):
    """Whether the comparison chooses between its own two sides, the smaller or the larger: where they are equal either
    will do, and nobody can see whether it was < or <=. `behind`: the text after the condition."""
    sides = sorted(operands(code, match))
    chosen = re.match(r"[^?]*? \? ([^?:]*) : ([^?:]*)$", code[match.end():])
    if chosen:
        return sorted(squeeze(side) for side in chosen.groups()) == sides
    chosen = re.match(r"\)\s*([^;={]*[^;={ +|&-]) = ([^;=]*);", re.sub(r"^\) \{([^;{}]*;)\s*\}", r")\1", behind))
    last = not re.search(r"&&|\|\|", code[match.end():]) and "||" not in code
    return bool(chosen) and last and sorted(squeeze(side) for side in chosen.groups()) == sides


def changes(masked, text, kind, start, end):
    """(kind, new text) of all that may be done to one place."""
    code, was, bounds, is_value = masked[start:end], text[start:end], [], kind == "value"
    behind = masked[end:end + 300] if kind == "condition" else ""
    if kind == "condition" and code.strip(" !"):
        yield "branch", "!(%s)" % was
    if kind in ("statement", "leaves"):
        yield "dropped", ""
    code = re.sub(r"(\)\(\w+) - (\w+\))", r"\1 ~ \2", code)  # pointers have a difference, no sum
    for match in OPERATORS.finditer(code):
        if match.group() in ("<", "<=", ">", ">=") and is_clamp(code, match, behind):
            left, right = operands(code, match)
            bounds.append({"<": right, ">": left}.get(match.group()))
            continue
        kind, other = ("comparison", OTHER) if match.group() in OTHER else ("operator", OPERATOR)
        yield kind, was[:match.start()] + other[match.group()] + was[match.end():]
    for match in re.finditer(r" \?(?= )", code):
        yield "branch", was[:match.start()] + " && 0 ?" + was[match.end():]
    for match in re.finditer(r"(\+\+|--)", code):
        yield "operator", was[:match.start()] + {"++": "--", "--": "++"}[match.group()] + was[match.end():]
    for match in CONSTANT.finditer(code):
        if match.group() in bounds:
            bounds.remove(match.group())
            continue  # one more than C in x < C is x <= C
        if is_value and match.group() == "1" and re.search(r"(^|[?:] )-$", code[:match.start()]):
            continue  # -1: it failed, or there is none
        flag = match.group() == "1" and re.search(r"\b(is|has)_\w+ = $", code[:match.start()])
        yield "constant", was[:match.start()] + ("0" if flag else another(match)) + was[match.end():]


def alone(mutant, after):
    """The new text on a line of its own, by whose number a compiler's complaint names the mutant."""
    return "\n#line %d\n%s\n#line %d\n" % (NO_LINE + mutant.number, " ".join(after.split()), mutant.line)


def woven(kind, was, found):
    """A place with all its mutants in it; found: [(mutant, new text)]."""
    if kind == "leaves":
        return "if (!MUTANT(%d)) %s" % (found[0][0].number, was)
    if kind == "statement":
        ifs = "".join("if (MUTANT(%d)) {%s; } else " % (m.number, alone(m, after)) for m, after in found)
        return "do { " + ifs + "{ %s; } } while (0)" % was
    return "".join("MUTANT(%d) ? (%s) : " % (m.number, alone(m, after)) for m, after in found) + "(%s)" % was


def key(mutant):
    """What a mutant is called where its number and its line may have changed."""
    return (mutant.file, mutant.function, mutant.before, mutant.after)


def path_of(file):
    """Where a file is, which is named as in the reports."""
    return os.path.join("src", file)


def mutate(file, number, refused):
    """(the file's text with all its mutants in it, their list, the last number). The first has the number after
    `number`. refused: what the compiler does not take; it has a number nevertheless."""
    with open(os.path.join(TOP, path_of(file)), encoding="utf-8") as source:
        text = source.read()
    masked, out, at, mutants = mask(text), [], 0, []
    for function, first, last in functions(masked):
        if function.endswith("_name"):
            continue  # words
        for kind, start, end in sorted(set(places(masked, first, last)), key=lambda place: place[1]):
            if start < at or "\n#" in text[start:end]:
                continue  # inside a statement that has its mutants
            found, shown = [], text[start:end]
            if kind == "leaves":  # which of them
                shown = text[:start].rstrip().rpartition("\n")[2] + " " + shown
            for what, after in changes(masked, text, kind, start, end):
                number += 1
                mutant = Mutant(number, file, text.count("\n", 0, start) + 1, function, what,
                                " ".join(shown.split()), " ".join(after.split()))
                if key(mutant) not in refused:
                    found.append((mutant, after))
            if found:
                out += [text[at:start], woven(kind, text[start:end], found)]
                at = end
                mutants += [mutant for mutant, _ in found]
    return "".join(out) + text[at:], mutants, number


HEADER = """#ifndef CORE_MUTANT_H
#define CORE_MUTANT_H
#ifdef __bpf__
#include "core/mutant_bpf.h"
#define MUTANT(number) ((number) == MUTANT_BPF)
#else
extern int mutant;
extern unsigned char mutant_seen[];
#define MUTANT(number) __builtin_expect((mutant_seen[number] = 1, mutant == (number)), 0)
#endif
#endif
"""
SOURCE = """#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "core/mutant.h"
int mutant;
enum { BYTES = (%d + 4096) / 4096 * 4096 };
unsigned char mutant_seen[BYTES] __attribute__((aligned(65536)));
/* Which places run is told in a file, if MUTANT_SEEN names one: it outlives every end of the process.
 * openat, as tests play open. */
__attribute__((constructor)) static void choose(void)
{
	const char *path = getenv("MUTANT_SEEN");
	int fd = path ? openat(AT_FDCWD, path, O_RDWR | O_CREAT, 0600) : -1;

	mutant = atoi(getenv("MUTANT") ? getenv("MUTANT") : "0");
	if (path && (fd < 0 || ftruncate(fd, BYTES) || mmap(mutant_seen, BYTES, PROT_READ | PROT_WRITE,
							    MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED))
		abort();
}
"""


def write(path, text):
    try:
        with open(path, encoding="utf-8") as old:
            if old.read() == text:
                return  # ninja need not build it again
    except FileNotFoundError:
        pass
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as new:
        new.write(text)


def ran(command):
    """What a command says that must not fail."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit("mutants.py: %s:\n%s%s" % (" ".join(command)[:200], done.stdout[-4000:], done.stderr[-4000:]))
    return done.stdout


def files_under(word):
    """What a word of a command makes a program read: a file, the files of a folder, or nothing."""
    if os.path.isdir(word):
        return sorted(entry.path for entry in os.scandir(word) if entry.is_file())
    return [word] if os.path.isfile(word) else []


class Tree:
    """A copy of the tree with all mutants of a scope in it, its build, and what may judge there."""

    def __init__(self, scope, jobs):
        self.scope, self.jobs = scope, jobs
        self.top = os.path.join(TOP, "build/mutants" if scope.name == "core" else "build/mutants-" + scope.name)
        self.build = os.path.join(self.top, "build/release")
        self.told = os.path.join(self.top, "refused.json")
        self.refused = set()
        if os.path.exists(self.told):
            with open(self.told, encoding="utf-8") as told:
                self.refused = {tuple(one) for one in json.load(told)}
        self.change()

    def change(self):
        """Finds {file: its text with all its mutants}, and the mutants."""
        self.texts, self.mutants, self.last = {}, [], self.scope.first
        for room in self.scope.rooms:
            for name in sorted(os.listdir(os.path.join(TOP, "src", room))):
                if name.endswith((".c", ".h")) and not self.scope.left_out.match(name):
                    file = room + "/" + name
                    self.texts[file], found, self.last = mutate(file, self.last, self.refused)
                    self.mutants += found

    def make(self):
        """Copies what has changed. All that has mutants is linked with core: there they are chosen."""
        listed = subprocess.run(["bash", "-c", ". scripts/tree.sh && files ."], cwd=TOP, check=True, capture_output=True,
                                text=True).stdout
        changed = {path_of(file) for file in self.texts} | set(self.built()) | {"tests/ablations.txt"}
        for path in listed.split("\0")[:-1]:
            source, copy = os.path.join(TOP, path), os.path.join(self.top, path)
            if not os.path.exists(source) or path in changed:
                continue
            if not os.path.exists(copy) or os.stat(copy).st_mtime != os.stat(source).st_mtime:
                os.makedirs(os.path.dirname(copy), exist_ok=True)
                shutil.copy2(source, copy)
        for file, text in self.texts.items():
            write(os.path.join(self.top, path_of(file)), '#include "core/mutant.h"\n#line 1\n' + text)
        for path, text in self.built().items():
            write(os.path.join(self.top, path), text)
        write(os.path.join(self.top, "src/core/mutant.h"), HEADER)
        write(os.path.join(self.top, "src/core/mutant.c"), SOURCE % self.last)
        self.tell_kernel(0)

    @staticmethod
    def built():
        """{path: text} of the build files that differ: with a library in which mutants are chosen, under all others."""
        out, rooms = {}, "include_directories: inc"
        for path, was, now in (
                ("src/util/meson.build", "util_lib =",
                 "mutant_lib = static_library('tally_mutant', '../core/mutant.c', %s)\nutil_lib =" % rooms),
                ("src/util/meson.build", rooms + ")\nutil_dep", "link_with: mutant_lib, %s)\nutil_dep" % rooms),
                ("src/core/meson.build", rooms, "link_with: mutant_lib, " + rooms),
                ("src/" + KERNEL + "meson.build", "'-Werror'", "'-w'")):
            with open(os.path.join(TOP, path), encoding="utf-8") as build_file:
                text = out.get(path) or build_file.read()
            if was not in text:
                sys.exit("mutants.py: %s has no %s" % (path, was))
            out[path] = text.replace(was, now, 1)
        return out

    def tell_kernel(self, number):
        """Chooses the mutant of the programs for the kernel, which are to be built then; 0: none."""
        write(os.path.join(self.top, "src/core/mutant_bpf.h"), "#define MUTANT_BPF %d\n" % number)

    def load(self, number):
        """Whether the programs for the kernel compile with this mutant; then they are in the tests that load them."""
        self.tell_kernel(number)
        return subprocess.run(["ninja", "-C", self.build, *self.loaders], capture_output=True, check=False).returncode == 0

    def compile(self):
        """Builds all that may kill a mutant. Returns (who, command, environment) of each."""
        self.make()
        if not os.path.exists(os.path.join(self.build, "build.ninja")):
            ran(["meson", "setup", self.build, self.top, "-Dwerror=false", "-Dc_args=-w", *self.scope.options])
        ran(["ninja", "-C", self.build, "build.ninja"])
        tests = [test for test in json.loads(ran(["meson", "introspect", self.build, "--tests"]))
                 if self.scope.tests.match(test["name"]) and not {"tally:check", "tally:page"} & set(test["suite"])]
        outputs = {os.path.relpath(name, self.build): name for name in itertools.chain.from_iterable(
            target["filename"] for target in json.loads(ran(["meson", "introspect", self.build, "--targets"])))}
        for test in tests:
            test["cmd"] = [outputs.get(word, word) for word in test["cmd"]]
        ours = [VECTORS, VECTORS_SPARSE, SIM, SEARCH] if self.scope.ours else []
        built = {word for test in tests for word in test["cmd"] if word.startswith(self.build)}
        self.loaders = sorted({os.path.relpath(word, self.build) for test in tests if LOADERS.match(test["name"])
                               for word in test["cmd"] if word.startswith(self.build)})
        ninja = ["ninja", "-k", "0", "-j", str(self.jobs), "-C", self.build]
        ninja += ours + sorted(os.path.relpath(word, self.build) for word in built)
        while self.refuse(subprocess.run(ninja, capture_output=True, text=True, check=False).stdout):
            self.change()
            self.make()
        ran(ninja)
        return list(self.ours() if ours else []) + [
            ("tests of " + test["name"].partition("-")[0], test["cmd"], test["env"]) for test in tests]

    def refuse(self, said):
        """Whether the compiler complains of mutants that it has not complained of: the sum of two pointers, for
        instance, is no C. They are remembered."""
        numbers = {int(line) - NO_LINE for line in re.findall(r":(\d{7}):", said)}
        found = {key(mutant) for mutant in self.mutants if mutant.number in numbers}
        self.refused |= found
        if found:
            write(self.told, json.dumps(sorted(self.refused), indent=1))
        return bool(found)

    def ours(self):
        """The judges of the protocol that are no tests of a room."""
        program = functools.partial(os.path.join, self.build)
        yield "vectors", [program(VECTORS), os.path.join(self.top, "tests/vectors")], {}
        yield "vectors", [program(VECTORS_SPARSE), os.path.join(self.top, "tests/vectors/sparse")], {}
        for words in SIMS:
            yield "sim", [program(SIM)] + words.split(), {}
        rows = subprocess.run([program(SEARCH), "--list"], check=True, capture_output=True, text=True).stdout
        for row in rows.splitlines():
            yield "search", [program(SEARCH), "--row", row], {}

    def run(self, command, environment, limit):
        """(verdict, seconds of the processor, seconds of the clock). HANGS: it took longer than the limit, on the clock if
        judges wait, else of the processor; UNDECIDED: it sleeps."""
        waits, began, ended = self.scope.waits, time.monotonic(), threading.Event()
        limits = [] if waits else ["--as=%d" % self.scope.memory, "--cpu=%d:%d" % (limit, limit + 1)]
        process = subprocess.Popen(["prlimit", "--core=0"] + limits + command, cwd=self.top, start_new_session=True,
                                   env=dict(os.environ, TALLY_TEST_SEED="1", **environment),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        watch = threading.Thread(target=self.watch, args=(process.pid, ended, limit))
        watch.start()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        ended.set()
        watch.join()
        os.killpg(process.pid, signal.SIGKILL)  # its children; its own number is taken until here
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        verdict = {0: PASSES, 77: SKIPS, -signal.SIGXCPU: HANGS, -signal.SIGKILL: HANGS, -signal.SIGTERM: UNDECIDED}
        return (verdict.get(process.returncode, FAILS), usage.ru_utime + usage.ru_stime,  # with its children's
                time.monotonic() - began)

    def watch(self, pid, ended, limit):
        """Ends a judge and its children when its time on the clock is over. Those of the rooms reserve more addresses
        than they use: what counts is the memory that they have."""
        waits = self.scope.waits
        until = time.monotonic() + (limit if waits else SLOW * limit + self.scope.seconds)
        while not ended.wait(0.1):
            with open("/proc/%d/statm" % pid, encoding="ascii") as pages:
                resident = int(pages.read().split()[1]) * os.sysconf("SC_PAGESIZE")
            if time.monotonic() > until or resident > self.scope.memory:
                os.killpg(pid, signal.SIGKILL if waits else signal.SIGTERM)
                break

    def alone(self, command, environment):
        """(verdict, seconds of the processor, seconds that its limits are counted in) without a mutant: the worst, and the
        shortest times."""
        quick = self.scope.quick
        if not self.scope.waits:
            verdict, seconds, _ = self.run(command, environment, quick)
            return verdict, seconds, seconds
        runs = [self.run(command, environment, PATIENCE)]
        if runs[0][0] == PASSES:
            with concurrent.futures.ThreadPoolExecutor(2) as two:
                runs += two.map(lambda _: self.run(command, environment, PATIENCE), range(2))
        verdicts, seconds, clock = zip(*runs)
        worst = next((verdict for verdict in verdicts if verdict != PASSES), PASSES)
        return HANGS if worst == PASSES and min(seconds) > quick else worst, min(seconds), min(clock)

    def judge(self, who, command, environment):
        """The judge without a mutant: it must pass. None if it is of no use. It is asked again only if it has changed,
        or what it reads."""
        digest = self.digest(command)
        seen = os.path.join(self.top, "seen", digest)
        os.makedirs(os.path.dirname(seen), exist_ok=True)
        told = self.remembered(seen + ".told") or self.alone(command, dict(environment, MUTANT_SEEN=seen))
        verdict, seconds, guard = told
        if verdict == SKIPS:
            return None  # it may run another time
        write(seen + ".told", json.dumps(told))
        if verdict == FAILS:
            if not self.scope.waits:
                sys.exit("mutants.py: fails without a mutant: " + " ".join(command))
            print("left out, fails without a mutant: " + " ".join(command))
        places = self.places_of(who, seen)
        if verdict != PASSES or not any(places):
            return None  # too slow, or nothing of it has mutants
        return Judge(who, command, environment, seconds, guard, places, digest)

    def digest(self, command):
        """What a judge is, and what it reads."""
        name = hashlib.sha256()
        read_too = [os.path.join(self.top, path) for path in ("tests/sim/seeds.txt", "tests/interop")]
        for word in command + read_too:
            for path in files_under(word):
                with open(path, "rb") as read:
                    name.update(read.read())
        name.update("\0".join(command).encode())
        return name.hexdigest()[:24]

    @staticmethod
    def remembered(path):
        """What a judge has told before; None: it has not been asked."""
        if not os.path.exists(path):
            return None
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def places_of(self, who, seen):
        """A byte for each mutant, 0 where the judge does not run its place. Of the kernel's programs nobody knows."""
        places = bytearray(self.last + 1)
        if os.path.exists(seen):
            with open(seen, "rb") as file:
                places = bytearray(file.read())
        if LOADERS.match(who.rpartition(" ")[2]):
            for mutant in self.mutants:
                if mutant.file.startswith(KERNEL):
                    places[mutant.number] = 1
        return bytes(places)


def asked(tree, judges, mutant):
    """Who judges this mutant: those that run its place, the quickest first."""
    seconds = 0
    for judge in sorted(judges, key=lambda one: one.guard):
        if judge.seen[mutant.number] and seconds + judge.seconds <= tree.scope.together:
            seconds += judge.seconds
            yield judge


def judged(tree, judges, mutant):
    """(who kills it, or None; PASSES, FAILS, HANGS or UNDECIDED; seconds). What hangs is given twice the time before
    it is believed: a slow machine kills nobody. So is what fails, of tests that the machine may disturb."""
    used = 0
    for judge in asked(tree, judges, mutant):
        for limit in (4 * judge.guard + 6, 8 * judge.guard + 12):
            left = limit if tree.scope.waits else tree.scope.seconds - used
            verdict, seconds, _ = tree.run(judge.command, dict(judge.environment, MUTANT=str(mutant.number)),
                                           max(1, min(limit, left)))
            used += seconds
            if verdict == HANGS and limit > left:
                verdict = UNDECIDED
            if verdict != HANGS and (verdict not in (FAILS, SKIPS) or not tree.scope.waits):
                break
        if verdict in (FAILS, SKIPS, HANGS) and is_disturbed(tree, judge, mutant):
            continue
        if verdict == PASSES and used > tree.scope.seconds:
            verdict = UNDECIDED
        if verdict != PASSES:
            return None if verdict == UNDECIDED else judge.who, verdict, used
    return None, PASSES, used


def is_disturbed(tree, judge, mutant):
    """Whether a judge that has turned red and could have been disturbed does so now without a mutant, too. Of a program
    for the kernel nothing else runs beside it."""
    limit = 4 * judge.guard + 6
    return (tree.scope.waits and not mutant.file.startswith(KERNEL) and
            tree.run(judge.command, judge.environment, limit)[0] != PASSES)


def judged_in_kernel(tree, judges, mutant):
    """As judged, one at a time, as what loads it has to be built. REFUSED: it does not compile, or to the same bytes, and
    so is no mutant."""
    others = judges if tree.load(mutant.number) else []
    others = [judge for judge in others if tree.digest(judge.command) != judge.digest]
    if others:
        return judged(tree, others, mutant)
    tree.refused.add(key(mutant))
    write(tree.told, json.dumps(sorted(tree.refused), indent=1))
    return None, REFUSED, 0


def excuses(mutants):
    """{(file, function, before, after): reason} of tests/mutants.txt; what is no mutant any more is an error."""
    out, known = {}, {key(mutant) for mutant in mutants}
    with open(EXCUSES, encoding="utf-8") as text:
        blocks = re.sub(r"^#.*\n", "", text.read(), flags=re.M).strip().split("\n\n")
    for block in filter(None, blocks):
        lines = [line.strip() for line in block.splitlines()]
        name = (*lines[0].split(), lines[1], "" if lines[2] == "(dropped)" else lines[2])
        if name not in known or len(lines) < 4 or name in out:
            sys.exit("tests/mutants.txt: no such mutant, twice, or no reason:\n" + block)
        out[name] = " ".join(lines[3:])
    return out


def lots(mutants, seed):
    """A number for each, by what it changes and the seed alone: code that stays keeps its mutants in a draw."""
    seen, out = collections.Counter(), {}
    for mutant in mutants:
        what = (mutant.file, mutant.function, mutant.kind, mutant.before, mutant.after)
        seen[what] += 1
        out[mutant.number] = hashlib.sha256(repr((seed, what, seen[what])).encode()).hexdigest()
    return out


def draw(mutants, count, seed):
    """`count` of them, of each file as many as its share and LEAST at least, in any order."""
    files, lot, out = collections.defaultdict(list), lots(mutants, seed), []
    for mutant in mutants:
        files[mutant.file].append(mutant)
    for of_file in files.values():
        share = max(LEAST, round(count * len(of_file) / len(mutants)))
        out += sorted(of_file, key=lambda mutant: lot[mutant.number])[:share]
    return sorted(out, key=lambda mutant: lot[mutant.number])


def show(mutant, reason):
    print("%s:%d %s: %s (MUTANT=%d)\n\t%s\n\t%s\n\t%s" % (mutant.file, mutant.line, mutant.function, mutant.kind,
          mutant.number, mutant.before, mutant.after or "(dropped)", reason), flush=True)


def table(counts, title):
    """counts: {row: Counter of "killed" and "alive"}."""
    print("\n%-24s %8s %8s" % (title, "mutants", "killed"))
    for name, count in sorted(counts.items()):
        print("%-24s %8d %8d" % (name, sum(count.values()), count["killed"]))


def judge_all(tree, judges, mutants, known):
    """Whether enough of them are killed; prints who lives at once, and at the end the figures. ^C ends it early."""
    killers, hung, longest, no_reason = collections.Counter(), 0, 0, 0
    files, kinds = collections.defaultdict(collections.Counter), collections.defaultdict(collections.Counter)
    pool = concurrent.futures.ThreadPoolExecutor(tree.jobs)
    kernels = [mutant for mutant in mutants if mutant.file.startswith(KERNEL)]
    others = [mutant for mutant in mutants if mutant not in kernels]
    results = itertools.chain(zip(others, pool.map(lambda mutant: judged(tree, judges, mutant), others)),
                              ((mutant, judged_in_kernel(tree, judges, mutant)) for mutant in kernels))
    with open(os.path.join(tree.top, "judged.txt"), "w", encoding="utf-8") as log:
        try:
            for mutant, (who, verdict, seconds) in results:
                if verdict == REFUSED:
                    continue
                longest, hung = max(longest, seconds), hung + (verdict == HANGS)
                killers[who] += 1
                files[mutant.file]["killed" if who else "alive"] += 1
                kinds[mutant.kind]["killed" if who else "alive"] += 1
                log.write("%d %s:%d %.1f s %s %s\n" % (
                    mutant.number, mutant.file, mutant.line, seconds, verdict, who or "nobody"))
                log.flush()
                if not who:
                    reason = known.get(key(mutant))
                    no_reason += reason is None
                    show(mutant, UNDECIDED if verdict == UNDECIDED else reason or NO_REASON[
                        any(judge.seen[mutant.number] for judge in judges)])
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
            print("stopped early")
    done, alive = sum(killers.values()), killers.pop(None, 0)
    table(files, "file")
    table(kinds, "kind")
    print("\nkilled by: " + ", ".join("%s %d" % one for one in killers.most_common()) + "; by hanging: %d" % hung)
    rate = 10000 * (done - alive) // max(done, 1)  # rounded down: 84.997 % are no 85
    print("%d mutants, %d killed (%d.%02d %%), %d live (%d without a reason), longest %.0f s of processor" % (
        done, done - alive, rate // 100, rate % 100, alive, no_reason, longest))
    return 100 * (done - alive) >= tree.scope.percent * done


def run(tree, known, said):
    """Whether enough of those drawn are killed."""
    judges = [tree.judge(*one) for one in tree.compile() if not said.proof or not one[0].startswith("tests of")]
    judges = [judge for judge in judges if judge]
    drawn = chosen(tree.mutants, said)
    if not any(LOADERS.match(judge.who.rpartition(" ")[2]) for judge in judges):
        files = {mutant.file for mutant in drawn if ROOT.match(mutant.file)}
        drawn = [mutant for mutant in drawn if mutant.file not in files]
        if files:
            print("left out, as only root's tests run them, with clang and libbpf: " + ", ".join(sorted(files)))
    print("%d mutants of %d, %d judges of %.0f s of processor in all\n" % (
        len(drawn), len(tree.mutants), len(judges), sum(judge.seconds for judge in judges)), flush=True)
    return judge_all(tree, judges, drawn, known)


def chosen(mutants, said):
    """Those of one scope that the words of the command are about."""
    if said.numbers:
        numbered = {mutant.number: mutant for mutant in mutants}
        return [numbered[number] for number in map(int, said.numbers.split(",")) if number in numbered]
    rooms = said.rooms.replace(",", " ").split()
    return draw([mutant for mutant in mutants if said.only in ("", mutant.file) and
                 (not rooms or any(mutant.file.startswith(room + "/") for room in rooms))], said.count, said.seed)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--count", type=int, default=240, help="mutants drawn, of each file its share (240)")
    options.add_argument("--seed", type=int, default=1, help="of the draw (1)")
    options.add_argument("--rooms", default="", metavar="ROOM,ROOM", help="of these alone, as src/ names them")
    options.add_argument("--only", default="", metavar="ROOM/FILE", help="of this file alone")
    options.add_argument("--numbers", default="", metavar="N,N", help="these mutants, as the report names them")
    options.add_argument("--list", action="store_true", help="print the mutants drawn; run nothing")
    options.add_argument("--proof", action="store_true", help="of core, by vectors, sim and search alone")
    options.add_argument("--jobs", type=int, default=os.cpu_count(), help="at a time (one for each processor)")
    said = options.parse_args()
    if said.count < 1 or said.jobs < 1:
        options.error("counts begin at 1")
    trees = [Tree(scope, said.jobs) for scope in SCOPES]
    known = excuses([mutant for tree in trees for mutant in tree.mutants])
    trees = [tree for tree in trees if chosen(tree.mutants, said) and (tree.scope.ours or not said.proof)]
    if not trees:
        options.error("there is no such mutant: --only takes a ROOM/FILE, --rooms folders of src")
    if said.list:
        for tree in trees:
            drawn = chosen(tree.mutants, said)
            for mutant in sorted(drawn):
                show(mutant, known.get(key(mutant), ""))
            print("%d of %d mutants" % (len(drawn), len(tree.mutants)))
        return 0
    os.nice(10)
    return 0 if all([run(tree, known, said) for tree in trees]) else 1


if __name__ == "__main__":
    sys.exit(main())
