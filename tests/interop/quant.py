# SPDX-License-Identifier: Apache-2.0
"""quant.py - floats as integers, infinities, overflow: R-NUM. Lanes are lists of integers."""
import math
import struct

from packet import NONFINITE, RANGE

INT32, FLOAT32 = 2, 7  # the numbers of nccl.h, as in tally.h
INT32_MIN, INT32_MAX = -2**31, 2**31 - 1


def exponent_of(values):
    """R-NUM-1."""
    bits = struct.unpack(f"<{len(values)}I", struct.pack(f"<{len(values)}f", *values))
    largest = max((b & 0x7FFFFFFF for b in bits if b & 0x7F800000 != 0x7F800000), default=0)
    return max(largest >> 23, 1) if largest else 0


def shift_of(exponent, size):
    """R-NUM-2: s. (ceil(log2 N) is the length of N - 1.)"""
    return 31 - (size - 1).bit_length() - (min(exponent, 254) - 126)


def data(values, dtype, exponent, size):
    """Lanes and sticky flags of a DATA round. ldexp is exact, round() is to nearest even."""
    bound = INT32_MAX // size
    if dtype == INT32:  # R-NUM-5
        return list(values), RANGE if any(abs(x) > bound for x in values) else 0
    shift, finite = shift_of(exponent, size), [math.isfinite(x) for x in values]
    lanes = [max(-bound, min(bound, round(math.ldexp(x, shift)))) if is_finite else 0
             for x, is_finite in zip(values, finite)]  # R-NUM-2
    return lanes, 0 if all(finite) else NONFINITE  # R-NUM-4


def detail(values, dtype):
    """Lanes of a DETAIL round: R-NUM-6, R-NUM-4."""
    if dtype == INT32:
        return [x >> 16 for x in values]
    return [0 if math.isfinite(x) else 0x10001 if math.isnan(x) else 1 if x > 0 else 0x10000
            for x in values]


def average(total, size):
    return total // size if total >= 0 else -(-total // size)  # toward zero


def to_float32(value):
    """One rounding. What is too large becomes an infinity, as in IEEE 754."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def unpack(lanes, dtype, exponent, size, is_avg):
    """The elements that a DATA round's sums stand for: R-NUM-3."""
    if dtype == INT32:
        return [average(q, size) if is_avg else q for q in lanes]
    shift = shift_of(exponent, size)
    return [to_float32(math.ldexp(q, -shift) / (size if is_avg else 1)) for q in lanes]


def amend(value, wrapped, high, dtype, size, is_avg):
    """An element after the DETAIL round: wrapped and high are the two rounds' sums."""
    if dtype == INT32:  # R-NUM-6
        exact = (high << 16) + (wrapped - (high << 16)) % 2**32
        return max(INT32_MIN, min(INT32_MAX, average(exact, size) if is_avg else exact))
    plus, minus = high & 0xFFFF, high >> 16 & 0xFFFF  # R-NUM-4
    return math.nan if plus and minus else math.inf if plus else -math.inf if minus else value
