#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rank.py HOST:PORT JOB RANK SIZE PLAN OUT [DIE_AT] - a rank of the interop test, by worker.py.

It does what PLAN says (plan.txt), checks each sum by itself, and writes all of them to OUT.
Exit status: 0 fine; 1 a wrong sum; 2 the job failed, a line on stderr says how. With DIE_AT it
kills itself when it has started that many operations.
"""
import math
import os
import signal
import struct
import sys

import quant
import worker

MASK32 = (1 << 32) - 1
EXPONENTS = {"narrow": -24, "odd": -24, "tiny": -149, "huge": 104}


def mix(rank, operation, i):
    x = (rank + 1) * 0x9E3779B9 ^ operation * 0xC2B2AE35 ^ i * 0x85EBCA6B
    x = ((x & MASK32) ^ (x & MASK32) >> 16) * 0x7FEB352D & MASK32
    x = (x ^ x >> 15) * 0x846CA68B & MASK32
    return x ^ x >> 16


def value(values, rank, operation, i):
    """The same number as value() in rank.c; every one is exact in its type."""
    x = mix(rank, operation, i)
    signed = x - (1 << 32) if x >> 31 else x
    if values == "small":
        return signed >> 6
    if values == "large":
        return (-2**31, 2**31 - 1)[x >> 8 & 1] if i % 7 == 0 else signed
    if values == "zero":
        return 0.0
    if values == "odd" and i % 61 == 0:
        return (math.inf, -math.inf, math.nan, 1.0)[x >> 8 & 3]
    return math.ldexp(signed >> 8, x % 61 - 54 if values == "wide" else EXPONENTS[values])


def check_integers(inputs, result, is_avg):
    for i, column in enumerate(zip(*inputs)):
        total = sum(column)
        if is_avg:
            total = quant.average(total, len(column))
        if result[i] != max(-2**31, min(2**31 - 1, total)):
            return f"element {i} is {result[i]}, not {total}"
    return None


def check_floats(inputs, result, is_avg, lanes):
    """Against the exact sum and the error that the rules allow."""
    size = len(inputs)
    for first in range(0, len(result), lanes):
        columns = list(zip(*(one[first:first + lanes] for one in inputs)))
        largest = max(abs(x) for column in columns for x in column if math.isfinite(x))
        error = size * 2.0 ** (math.frexp(largest)[1] + 3 - 31 + (size - 1).bit_length())  # R-WK-18: 3 of a guess
        for i, column in enumerate(columns, first):
            finite, got = all(math.isfinite(x) for x in column), result[i]
            want = math.fsum(column) if finite else sum(x for x in column if not math.isfinite(x))
            want = want / size if is_avg else want
            if finite and abs(want) > 3.4028235e38:
                good = got == math.copysign(math.inf, want)
            elif finite:
                # 2^-150: half an ulp of the denormals
                good = abs(got - want) <= error + abs(want) * 2.0**-24 + 2.0**-150
            else:
                good = got == want or math.isnan(got) and math.isnan(want)
            if not good:
                return f"element {i} is {got}, not {want} (error {error})"
    return None


def main():
    address, job, rank, size, plan, out, *die_at = sys.argv[1:]
    host, port = address.rsplit(":", 1)
    me, rank, size = None, int(rank), int(size)
    me = worker.Worker(host, int(port), job, rank, size)
    started, output = [], open(out, "wb")
    for line in open(plan):
        words = line.split("#")[0].split()
        if words and words[0] != "wait":
            dtype, values, count, op, name = words
            number, is_avg = me.submitted, op == "avg"
            inputs = [[value(values, r, number, i) for i in range(int(count))] for r in range(size)]
            dtype = worker.INT32 if dtype == "int32" else worker.FLOAT32
            op = worker.AVG if is_avg else worker.SUM
            name = "" if name == "-" else name
            operation = me.allreduce_start(inputs[rank], dtype, op, name)
            started.append((operation, inputs, is_avg))
            if die_at and me.submitted == int(die_at[0]):
                os.kill(os.getpid(), signal.SIGKILL)
        for operation, inputs, is_avg in started if words == ["wait"] else ():
            result = me.wait(operation)
            wrong = (check_integers(inputs, result, is_avg) if operation.dtype == worker.INT32
                     else check_floats(inputs, result, is_avg, me.lanes))
            if wrong:
                print(f"rank {rank}: operation {operation.number}: {wrong}", file=sys.stderr)
                sys.exit(1)
            output.write(struct.pack(f"<{len(result)}{result.typecode}", *result))
        if words == ["wait"]:
            started = []
    me.leave()
    output.close()
    print(f"rank {rank}: Python, {me.submitted} operations,",
          ", ".join(f"{n} {what}" for what, n in me.counts.items()))


if __name__ == "__main__":
    try:
        main()
    except worker.Failed as failure:
        print(f"rank {sys.argv[3]}: {failure}", file=sys.stderr)
        sys.exit(2)
