# SPDX-License-Identifier: Apache-2.0
"""replay_exact.py - sums of floats that are exact (R-NUM-13): Python's integers add them up, and the result is rounded
once, half to even. It shares nothing with lanes.py."""
import struct

from replay_numbers import expect

# By the number of the type: struct's code of its bits, bits of the fraction, and of the exponent.
FORMS = {6: ("H", 10, 5), 7: ("I", 23, 8), 8: ("Q", 52, 11), 9: ("H", 7, 8)}


def units(bits, fraction, exponent):
    """How many of the smallest denormal a float is."""
    biased = bits >> fraction & (1 << exponent) - 1
    size = bits & (1 << fraction) - 1
    if biased:
        size = (size | 1 << fraction) << biased - 1
    return -size if bits >> fraction + exponent else size


def rounded(number, by, fraction, exponent):
    """The float that is nearest to number / by units, as its bits; half of the way to the even one."""
    sign = int(number < 0) << fraction + exponent
    number = abs(number)
    shift = max(0, (number // by).bit_length() - fraction - 1)
    quotient, rest = divmod(number, by << shift)
    quotient += 2 * rest > by << shift or (2 * rest == by << shift and quotient & 1)
    # Each further power of two is one more in the exponent; a carry out of the fraction is one as well.
    bits = quotient + (shift << fraction)
    return sign | min(bits, (1 << exponent) - 1 << fraction)


def exact(dtype, is_avg, workers, *texts):
    *sources, result = texts
    code, fraction, exponent = FORMS[dtype]
    columns = zip(*([bits for bits, in struct.iter_unpack("<" + code, source)] for source in sources))
    by = workers if is_avg else 1
    wanted = [column[0] if workers == 1 else  # its own bits, also those of -0
              rounded(sum(units(bits, fraction, exponent) for bits in column), by, fraction, exponent)
              for column in columns]
    expect("R-NUM-13: ranks", len(sources), workers)
    expect("R-NUM-13: the sum, rounded once", [bits for bits, in struct.iter_unpack("<" + code, result)], wanted)


CALLS = {"exact": exact}
