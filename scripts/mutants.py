#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mutants.py - change the protocol code in many small ways, one at a time, and see who notices.

All mutants are compiled into one build (build/mutants): each place asks `MUTANT(number)`, and MUTANT in the
environment chooses. The golden packets, the simulator, the search and the tests of core judge them: only those
that run the place, the quickest first, and who fails first has killed the mutant. Those that live are listed;
tests/mutants.txt says why some may. docs/mutants.md says how to read this. Exit status: 0 if at least 90 % are killed."""
import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TREE = os.path.join(TOP, "build/mutants")
BUILD = os.path.join(TREE, "build/release")
JUDGED = os.path.join(TREE, "judged.txt")  # a line for each mutant of the last run
EXCUSES = os.path.join(TOP, "tests/mutants.txt")
VECTORS = os.path.join(BUILD, "tests/vectors_test")
VECTORS_SPARSE = os.path.join(BUILD, "tests/vectors_sparse_test")
SIM = os.path.join(BUILD, "src/sim/sim_main")
SEARCH = os.path.join(BUILD, "src/search/tally-search")
SIMS = ("--seeds 1..2", "--scenario latency --seeds 1..8", "--scenario every --packets 2500 --seeds 1..40",
        "--seeds 3..20", "--scenario latency --seeds 9..100", "--list tests/sim/seeds.txt")
NOT_PROTOCOL = re.compile(r".*_(test|fuzz|fixture|shadow|model)\.|(text|ablate|env)\.")
JUDGE_S = 8  # of processor: what takes longer does not judge
JUDGES_S = 24  # nor do the slowest of those that run a place, beyond this
MUTANT_S = 60  # of processor: the longest that one mutant may take
SLOW = 30  # of the clock for a second of the processor, on a machine that others use: what takes longer sleeps
MEMORY = 2 << 30  # of a judge
KILLED_PERCENT = 90
LEAST = 3  # mutants of each file
PASSES, FAILS, HANGS = "passes", "fails", "hangs"
UNDECIDED = "60 s were not enough"
NO_REASON = {True: "no reason is known", False: "no reason is known, and no judge runs it"}

OTHER = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&"}
OPERATOR = {"+": "-", "-": "+", "&": "|", "|": "&", "*": "+", "/": "*", "%": "/", "<<": ">>", ">>": "<<", "^": "&",
            "+=": "-=", "-=": "+=", "|=": "&=", "&=": "|=", "<<=": ">>=", ">>=": "<<=", "^=": "|="}
OPERATORS = re.compile("(?<= )(" + "|".join(re.escape(o) for o in sorted([*OTHER, *OPERATOR], key=len, reverse=True)) +
                       ")(?= )")
CONSTANT = re.compile(r"(?<![\w.\[])(?:(0x[0-9a-f]+|\d+)(?:u|ull)?|(true|false)|([A-Z][A-Z0-9]*_[A-Z0-9_]*))(?![\w.(])")
LEAVES = re.compile(r"(break|continue|return);")
NOT_STATEMENTS = re.compile(r"(if|for|while|do|else|return|switch|case|default|break|continue|goto|struct|union|"
                            r"enum|const|volatile|static|bool|char|int|unsigned|void|u?int\d+_t|float|double|size_t|"
                            r"CORE_ASSERT|_Static_assert)\b")

Mutant = collections.namedtuple("Mutant", "number file line function kind before after")
Judge = collections.namedtuple("Judge", "who command seconds seen")


def blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def mask(text):
    """The text with all that is not protocol code blanked, every position kept: comments, strings, preprocessor
    lines, and what only a build without one of the rules would run (ablate.h)."""
    text = re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"|^[ \t]*#(?:\\\n|[^\n])*', blank, text, flags=re.S | re.M)
    for match in re.finditer(r"\b(?:if|while|for) \((?:[^()]*; )?TAKEN_OUT\(\w+\)(?! \|\|)", text):
        at = closing(text, text.index("(", match.start())) + 1
        at += len(text[at:]) - len(text[at:].lstrip())
        end = closing(text, at) if text[at] == "{" else end_of(text, at)
        text = text[:match.start()] + re.sub(r"[^\n]", " ", text[match.start():end + 1]) + text[end + 1:]
    text = re.sub(r"!TAKEN_OUT\(\w+\) \|\|[^;{]*?(?=\)\n)", blank, text)
    text = re.sub(r"\bTAKEN_OUT\(\w+\) (?:\?[^:]*:|\|\|)", blank, text)
    return re.sub(r"(?:&&|\|\|)\s*!?TAKEN_OUT\(\w+\)|!?\bTAKEN_OUT\(\w+\)", blank, text)


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
    for match in re.finditer(r"^\w[^\n;]*?(\w+)\([^;{}]*\)\n\{\n", text, re.M):
        yield match.group(1), match.end(), text.index("\n}", match.end())


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
    for match in re.compile(r"^\t+(?=[a-z*(+-])", re.M).finditer(text, first, last):
        start = match.end()
        before, line, stop = text[:match.start()].rstrip(), text[start:text.index("\n", start)], end_of(text, start)
        if before[-1:] not in ";{}:)" and not before.endswith("else") or line.startswith("text_"):
            continue  # in the middle of something; words
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
    code, was, bounds = masked[start:end], text[start:end], []
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
        flag = match.group() == "1" and re.search(r"\b(is|has)_\w+ = $", code[:match.start()])
        yield "constant", was[:match.start()] + ("0" if flag else another(match)) + was[match.end():]


def woven(kind, was, found):
    """A place with all its mutants in it; found: [(mutant, new text)]."""
    if kind == "leaves":
        return "if (!MUTANT(%d)) %s" % (found[0][0].number, was)
    if kind == "statement":
        ifs = "".join("if (MUTANT(%d)) { %s; } else " % (m.number, after) for m, after in found)
        return "do { " + ifs + "{ %s; } } while (0)" % was
    return "".join("MUTANT(%d) ? (%s) : " % (m.number, after) for m, after in found) + "(%s)" % was


def mutate(file, number):
    """The file's text with all its mutants in it, and their list. The first has the number after `number`."""
    with open(os.path.join(TOP, "src/core", file), encoding="utf-8") as source:
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
                found.append((Mutant(number, file, text.count("\n", 0, start) + 1, function, what,
                                     " ".join(shown.split()), " ".join(after.split())), after))
            if found:
                out += [text[at:start], woven(kind, text[start:end], found)]
                at = end
                mutants += [mutant for mutant, _ in found]
    return "".join(out) + text[at:], mutants


HEADER = """#ifndef CORE_MUTANT_H
#define CORE_MUTANT_H
#ifdef __bpf__
#define MUTANT(number) 0
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
/* Which places run is told in a file, if MUTANT_SEEN names one: it outlives every end of the process. */
__attribute__((constructor)) static void choose(void)
{
	const char *path = getenv("MUTANT_SEEN");
	int fd = path ? open(path, O_RDWR | O_CREAT, 0600) : -1;

	mutant = atoi(getenv("MUTANT") ? getenv("MUTANT") : "0");
	if (path && (fd < 0 || ftruncate(fd, BYTES) || mmap(mutant_seen, BYTES, PROT_READ | PROT_WRITE,
							    MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED))
		abort();
}
"""


def write(path, text):
    path = os.path.join(TREE, path)
    try:
        with open(path, encoding="utf-8") as old:
            if old.read() == text:
                return  # ninja need not build it again
    except FileNotFoundError:
        pass
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as new:
        new.write(text)


def all_mutants():
    """{file of core: its text with all its mutants}, and the mutants."""
    texts, mutants = {}, []
    for file in sorted(os.listdir(os.path.join(TOP, "src/core"))):
        if file.endswith((".c", ".h")) and not NOT_PROTOCOL.match(file):
            texts[file], found = mutate(file, len(mutants))
            mutants += found
    return texts, mutants


def make_tree(texts, count):
    """A copy of the tree with all mutants in src/core."""
    listed = subprocess.run(["git", "-C", TOP, "ls-files", "--cached", "--others", "--exclude-standard"],
                            check=True, capture_output=True, text=True).stdout
    for path in listed.splitlines():
        source, copy = os.path.join(TOP, path), os.path.join(TREE, path)
        if not os.path.exists(source) or os.path.dirname(path) == "src/core" and os.path.basename(path) in texts:
            continue
        if not os.path.exists(copy) or os.stat(copy).st_mtime < os.stat(source).st_mtime:
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            shutil.copy2(source, copy)
    for file, text in texts.items():
        write("src/core/" + file, '#include "core/mutant.h"\n#line 1\n' + text)
    write("src/core/mutant.h", HEADER)
    write("src/core/mutant.c", SOURCE % count)
    with open(os.path.join(TOP, "src/core/meson.build"), encoding="utf-8") as build_file:
        write("src/core/meson.build", build_file.read().replace("'ablate.c', ", "'ablate.c', 'mutant.c', ", 1))


def build():
    """All that may kill a mutant. Returns the commands of the tests of core."""
    def ran(command):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit("mutants.py: %s:\n%s%s" % (" ".join(command)[:200], done.stdout[-4000:], done.stderr[-4000:]))
        return done.stdout

    if not os.path.exists(os.path.join(BUILD, "build.ninja")):
        ran(["meson", "setup", BUILD, TREE, "-Dwerror=false", "-Dc_args=-w"])
    ran(["ninja", "-C", BUILD, "build.ninja"])
    tests = [test["cmd"] for test in json.loads(ran(["meson", "introspect", BUILD, "--tests"]))
             if test["name"].startswith("core-")]
    programs = [VECTORS, VECTORS_SPARSE, SIM, SEARCH] + [command[0] for command in tests]
    ran(["ninja", "-C", BUILD] + [os.path.relpath(program, BUILD) for program in programs])
    return tests


def run(command, environment, limit):
    """(verdict, seconds of the processor). HANGS: it took more of these than the limit; UNDECIDED: it sleeps."""
    command = ["prlimit", "--as=%d" % MEMORY, "--core=0", "--cpu=%d:%d" % (limit, limit + 1)] + command
    environment = dict(os.environ, TALLY_TEST_SEED="1", **environment)
    process = subprocess.Popen(command, env=environment, cwd=TREE, start_new_session=True, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    asleep = threading.Timer(SLOW * limit + MUTANT_S, os.killpg, (process.pid, signal.SIGTERM))
    asleep.start()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    asleep.cancel()
    os.killpg(process.pid, signal.SIGKILL)  # its children; its own number is taken until here
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    verdict = {0: PASSES, -signal.SIGXCPU: HANGS, -signal.SIGKILL: HANGS, -signal.SIGTERM: UNDECIDED}
    return verdict.get(process.returncode, FAILS), usage.ru_utime + usage.ru_stime


def commands(tests):
    """(who, command) of all that may judge."""
    yield "vectors", [VECTORS, os.path.join(TREE, "tests/vectors")]
    yield "vectors", [VECTORS_SPARSE, os.path.join(TREE, "tests/vectors/sparse")]
    for words in SIMS:
        yield "sim", [SIM] + words.split()
    rows = subprocess.run([SEARCH, "--list"], check=True, capture_output=True, text=True).stdout
    for row in rows.splitlines():
        yield "search", [SEARCH, "--row", row]
    for command in tests:
        yield "tests of core", command


def without(who, command):
    """The judge without a mutant: it must pass. None if it is of no use. It is asked again only if it has changed, or
    what it reads."""
    name = hashlib.sha256()
    for path in [command[0], os.path.join(TREE, "tests/sim/seeds.txt")]:
        with open(path, "rb") as program:
            name.update(program.read())
    if who == "vectors":
        for file in sorted(entry.path for entry in os.scandir(command[1]) if entry.is_file()):
            with open(file, "rb") as vectors:
                name.update(vectors.read())
    name.update("\0".join(command).encode())
    seen = os.path.join(TREE, "seen", name.hexdigest()[:24])
    if not os.path.exists(seen + ".json"):
        os.makedirs(os.path.dirname(seen), exist_ok=True)
        verdict, seconds = run(command, {"MUTANT_SEEN": seen}, JUDGE_S)
        if verdict == FAILS:
            sys.exit("mutants.py: fails without a mutant: " + " ".join(command))
        with open(seen + ".json", "w", encoding="utf-8") as told:
            json.dump(seconds if verdict == PASSES else None, told)
    with open(seen + ".json", encoding="utf-8") as told:
        seconds = json.load(told)
    if seconds is None or not os.path.exists(seen):
        return None  # too slow, or nothing of it is protocol
    with open(seen, "rb") as places_seen:
        return Judge(who, command, seconds, places_seen.read())


def asked(judges, mutant):
    """Who judges this mutant: those that run its place, the quickest first."""
    seconds = 0
    for judge in sorted(judges, key=lambda one: one.seconds):
        if judge.seen[mutant.number] and seconds + judge.seconds <= JUDGES_S:
            seconds += judge.seconds
            yield judge


def judged(judges, mutant):
    """(who kills it, or None; PASSES, FAILS, HANGS or UNDECIDED; seconds). What hangs is given twice the time before
    it is believed: a slow machine kills nobody."""
    used = 0
    for judge in asked(judges, mutant):
        for limit in (10 * judge.seconds + 3, 20 * judge.seconds + 6):
            left = MUTANT_S - used
            verdict, seconds = run(judge.command, {"MUTANT": str(mutant.number)}, max(1, min(limit, left)))
            used += seconds
            if verdict == HANGS and limit > left:
                verdict = UNDECIDED
            if verdict != HANGS:
                break
        if verdict != PASSES:
            return None if verdict == UNDECIDED else judge.who, verdict, used
    return None, PASSES, used


def excuses(mutants):
    """{(file, function, before, after): reason} of tests/mutants.txt; what is no mutant any more is an error."""
    out, known = {}, {m[1:2] + m[3:4] + m[5:] for m in mutants}
    with open(EXCUSES, encoding="utf-8") as text:
        blocks = re.sub(r"^#.*\n", "", text.read(), flags=re.M).strip().split("\n\n")
    for block in filter(None, blocks):
        lines = [line.strip() for line in block.splitlines()]
        key = (*lines[0].split(), lines[1], "" if lines[2] == "(dropped)" else lines[2])
        if key not in known or len(lines) < 4 or key in out:
            sys.exit("tests/mutants.txt: no such mutant, twice, or no reason:\n" + block)
        out[key] = " ".join(lines[3:])
    return out


def draw(mutants, count, seed):
    """`count` of them, of each file as many as its share and LEAST at least, in any order."""
    files, chance, out = collections.defaultdict(list), random.Random(seed), []
    for mutant in mutants:
        files[mutant.file].append(mutant)
    for of_file in files.values():
        share = max(LEAST, round(count * len(of_file) / len(mutants)))
        out += chance.sample(of_file, min(share, len(of_file)))
    chance.shuffle(out)
    return out


def show(mutant, reason):
    print("%s:%d %s: %s (MUTANT=%d)\n\t%s\n\t%s\n\t%s" % (mutant.file, mutant.line, mutant.function, mutant.kind,
          mutant.number, mutant.before, mutant.after or "(dropped)", reason), flush=True)


def table(counts, title):
    """counts: {row: Counter of "killed" and "alive"}."""
    print("\n%-24s %8s %8s" % (title, "mutants", "killed"))
    for name, count in sorted(counts.items()):
        print("%-24s %8d %8d" % (name, sum(count.values()), count["killed"]))


def judge_all(judges, mutants, known, jobs):
    """Whether enough of them are killed; prints who lives at once, and at the end the figures. ^C ends it early."""
    killers, hung, longest, no_reason = collections.Counter(), 0, 0, 0
    files, kinds = collections.defaultdict(collections.Counter), collections.defaultdict(collections.Counter)
    pool = concurrent.futures.ThreadPoolExecutor(jobs)
    results = zip(mutants, pool.map(lambda mutant: judged(judges, mutant), mutants))
    with open(JUDGED, "w", encoding="utf-8") as log:
        try:
            for mutant, (who, verdict, seconds) in results:
                longest, hung = max(longest, seconds), hung + (verdict == HANGS)
                killers[who] += 1
                files[mutant.file]["killed" if who else "alive"] += 1
                kinds[mutant.kind]["killed" if who else "alive"] += 1
                log.write("%d %s:%d %.1f s %s %s\n" % (
                    mutant.number, mutant.file, mutant.line, seconds, verdict, who or "nobody"))
                log.flush()
                if not who:
                    reason = known.get((mutant.file, mutant.function, mutant.before, mutant.after))
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
    print("%d mutants, %d killed (%.1f %%), %d live (%d without a reason), longest %.0f s of processor" % (
        done, done - alive, 100 * (done - alive) / max(done, 1), alive, no_reason, longest))
    return 100 * (done - alive) >= KILLED_PERCENT * done


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--count", type=int, default=240, help="mutants drawn, of each file its share (240)")
    options.add_argument("--seed", type=int, default=1, help="of the draw (1)")
    options.add_argument("--only", default="", metavar="FILE", help="of this file of src/core alone")
    options.add_argument("--numbers", default="", metavar="N,N", help="these mutants, as the report names them")
    options.add_argument("--list", action="store_true", help="print the mutants drawn; run nothing")
    options.add_argument("--proof", action="store_true", help="without the tests of core: vectors, sim and search alone")
    options.add_argument("--jobs", type=int, default=os.cpu_count(), help="at a time (one for each processor)")
    said = options.parse_args()
    texts, mutants = all_mutants()
    if said.only and said.only not in texts or said.count < 1 or said.jobs < 1:
        options.error("--only takes one of: " + " ".join(texts) if said.only else "counts begin at 1")
    known = excuses(mutants)
    drawn = draw([m for m in mutants if said.only in ("", m.file)], said.count, said.seed)
    if said.numbers:
        drawn = [mutants[int(number) - 1] for number in said.numbers.split(",")]
    if said.list:
        for mutant in sorted(drawn):
            show(mutant, known.get((mutant.file, mutant.function, mutant.before, mutant.after), ""))
        print("%d of %d mutants" % (len(drawn), len(mutants)))
        return 0
    os.nice(10)
    make_tree(texts, len(mutants))
    judges = [without(who, command) for who, command in commands(build())
              if who != "tests of core" or not said.proof]
    judges = [judge for judge in judges if judge]
    print("%d mutants of %d, %d judges of %.0f s in all\n" % (
        len(drawn), len(mutants), len(judges), sum(judge.seconds for judge in judges)), flush=True)
    return 0 if judge_all(judges, drawn, known, said.jobs) else 1


if __name__ == "__main__":
    sys.exit(main())
