# SPDX-License-Identifier: Apache-2.0
"""lanes.py - how elements of every type become lanes, and sums of lanes elements: R-NUM-1 to R-NUM-16, read from
docs/protocol.md alone. Elements are integers or fractions.Fraction, or INF, -INF, NAN; lanes are integers."""
from fractions import Fraction
import functools
import math
import struct

INT8, UINT8, INT32, UINT32, INT64, UINT64, FLOAT16, FLOAT32, FLOAT64, BFLOAT16 = range(10)  # of nccl.h
SUM, PROD, MAX, MIN, AVG, COPY = range(6)  # COPY: nothing is added up
FREE, HALF, EXACT, FIXED = range(4)
ADD_LANES, SHORT_LANES, MAX_LANES, TAKE_LANES = range(4)
NONFINITE, RANGE = 0x20, 0x40
INF, NAN = math.inf, math.nan
CODES = dict(zip(range(10), "bBiIqQHIQH"))  # of struct: floats by their bits
FORMS = {FLOAT16: (10, 5), FLOAT32: (23, 8), FLOAT64: (52, 11), BFLOAT16: (7, 8)}  # bits of fraction and exponent
RANGES = {INT8: (-2**7, 2**7 - 1), UINT8: (0, 2**8 - 1), INT32: (-2**31, 2**31 - 1), UINT32: (0, 2**32 - 1),
          INT64: (-2**63, 2**63 - 1), UINT64: (0, 2**64 - 1)}
LARGEST_NAN = 2**31 - 1


def size_of(dtype):
    return struct.calcsize(CODES[dtype])


def log2(size):
    return (size - 1).bit_length()


def wrap(value, bits=32):
    """As a signed integer of so many bits."""
    return (value + 2**(bits - 1)) % 2**bits - 2**(bits - 1)


@functools.cache
def power(exponent):
    return Fraction(2)**exponent


class Float:
    """A type of floats: bits to numbers and back."""

    def __init__(self, fraction, exponent):
        self.fraction, self.exponent = fraction, exponent
        self.bias, self.top = 2**(exponent - 1) - 1, 2**exponent - 1
        self.least = 1 - self.bias - fraction  # all are multiples of 2^least

    def field(self, bits):
        return bits >> self.fraction & self.top

    @functools.lru_cache(1 << 17)
    def number(self, bits):
        field, fraction = self.field(bits), bits % 2**self.fraction
        sign = -1 if bits >> self.fraction + self.exponent else 1
        if field == self.top:
            return NAN if fraction else sign * INF
        whole = fraction + (2**self.fraction if field else 0)
        return sign * whole * power(max(field, 1) - self.bias - self.fraction)

    def bits(self, number):
        """Rounded to nearest even. What is too large is an infinity."""
        sign, size = 1 << self.fraction + self.exponent, abs(number)
        if number != number:
            return self.top << self.fraction | 1 << self.fraction - 1
        if size == INF:
            return self.top << self.fraction | (sign if number < 0 else 0)
        if not size:
            return 0
        top = size.numerator.bit_length() - size.denominator.bit_length()
        if size < power(top):
            top -= 1
        last = max(top - self.fraction, self.least)
        whole = round(size / power(last))  # of a Fraction: to even
        bits = (last - self.least << self.fraction) + whole
        return min(bits, self.top << self.fraction) | (sign if number < 0 else 0)


FLOATS = {dtype: Float(*form) for dtype, form in FORMS.items()}


def is_finite(number):
    return not isinstance(number, float)  # these alone are INF, -INF, NAN


class Lanes:
    """How an operation travels."""

    def __init__(self, dtype, op, count, size, packet, form=FREE, exponent=0):
        self.dtype, self.op, self.size = dtype, op, size
        self.fixed = self.limit = None  # R-NUM-16: the exponent, and what is below its numbers
        self.form = FLOATS.get(dtype)
        self.shape, self.is_scaled, self.digit = (1, 1), False, 31 - log2(size)
        self.is_order, self.is_exact = op in (MAX, MIN), False
        self.is_raw = size == 1 or op == COPY  # R-NUM-8
        self.lane_op = TAKE_LANES if op == COPY else MAX_LANES if self.is_order else ADD_LANES
        self.can = op != PROD and not (self.is_order and size_of(dtype) == 8)
        if self.is_raw:
            self.shape = (max(1, 4 // size_of(dtype)), max(1, size_of(dtype) // 4))
        elif not self.is_order:
            self.choose(count, packet, form, exponent)
        self.can = self.can and (packet >= self.shape[1] or not count)
        self.is_guessed = self.is_scaled and dtype == FLOAT32 and form == FREE and size <= 64  # R-WK-17

    def digits(self, bits):
        return 1, -(-bits // self.digit)

    def choose(self, count, packet, form, exponent):
        if self.form:
            exact = self.digits(self.form.bias + 1 - self.form.least)
            self.is_exact = count > 0 and (count <= packet // exact[1] or form == EXACT)  # R-NUM-13, R-NUM-15
            self.is_scaled = not self.is_exact
        if self.is_exact:
            self.shape, self.lane_op = exact, SHORT_LANES
        elif self.dtype == FLOAT32 and form == HALF and count:  # R-NUM-15
            self.shape, self.can = (2, 1), self.can and self.size <= 16
        elif self.dtype == FLOAT32 and form == FIXED and count:
            self.fixed, self.limit, self.is_scaled = exponent, power(exponent - 126), False
            self.can = self.can and 1 <= exponent <= 254
        elif self.dtype == FLOAT16 and self.size <= 16 or self.dtype == BFLOAT16 and self.size <= 128:  # R-NUM-11
            self.shape = 2, 1
        elif self.dtype in (INT64, UINT64):  # R-NUM-10
            self.shape = self.digits(64)
        elif self.dtype == FLOAT64:  # R-NUM-12
            self.shape = self.digits(55)

    def results(self, datas, elements):
        """What a sum may be: of float32 the exponent may have been guessed (R-WK-18)."""
        exponent = self.exponent(elements)
        guesses = 4 if exponent and self.is_guessed else 1
        return [self.result(datas, exponent + above)[0] for above in range(guesses)]

    def elements(self, data):
        found = [bits for bits, in struct.iter_unpack("<" + CODES[self.dtype], data)]
        return [self.form.number(bits) for bits in found] if self.form else found

    def data(self, elements):
        if self.form:
            elements = [self.form.bits(number) for number in elements]
        return struct.pack(f"<{len(elements)}{CODES[self.dtype]}", *elements)

    # -- one element as lanes --

    def exponent(self, elements):
        """R-NUM-1; of what has 16 bits as float32 has it."""
        form = FLOATS[FLOAT64 if self.dtype == FLOAT64 else FLOAT32]
        most = max((abs(x) for x in elements if is_finite(x)), default=0)
        return max(1, form.field(form.bits(most))) if most and self.is_scaled else 0

    def shift(self, exponent):
        if self.is_exact:
            return -self.form.least
        if self.dtype == FLOAT64:
            return self.shape[1] * self.digit - (min(exponent, 2046) - 1022)
        bits = 15 if self.shape[0] == 2 else 31
        exponent = exponent if self.fixed is None else self.fixed
        return bits - log2(self.size) - (min(exponent, 254) - 126)

    def whole(self, number, exponent):
        """A finite float as an integer."""
        whole = round(number * power(self.shift(exponent)))
        if self.is_exact or self.dtype == FLOAT64:
            return whole
        bound = (2**(15 if self.shape[0] == 2 else 31) - 1) // self.size
        return max(-bound, min(bound, whole))

    def code(self, number, bits):
        """R-NUM-14: integers in the order of the elements."""
        if not self.form:
            code = number - (2**31 if self.dtype == UINT32 else 0)
        elif number != number:
            return LARGEST_NAN
        else:
            width = 8 * size_of(self.dtype)
            code = bits if not bits >> width - 1 else -1 - bits % 2**(width - 1)
        return -1 - code if self.op == MIN else code

    def seen(self, number):
        """R-NUM-16: what is too large counts as infinite."""
        is_large = self.limit and is_finite(number) and abs(number) >= self.limit
        return math.copysign(INF, number) if is_large else number

    def spread(self, whole):
        """As digits, all with the sign of the whole."""
        sign, whole = (-1 if whole < 0 else 1), abs(whole)
        return [sign * (whole >> i * self.digit) % 2**self.digit if sign > 0 else
                -((whole >> i * self.digit) % 2**self.digit) for i in range(self.shape[1])]

    def rows(self):
        """R-NUM-13: the digit that each row has."""
        middle = (12 - self.form.least) // self.digit
        near = sum(([middle - 1 - far, middle + far] for far in range(self.shape[1])), [])
        return [digit for digit in near if 0 <= digit < self.shape[1]]

    def pack(self, data, exponent):
        """Lanes and sticky flags."""
        elements, flags = self.elements(data), 0
        if self.is_raw:
            return list(struct.unpack(f"<{(len(data) + 3) // 4}i", data + bytes(-len(data) % 4))), 0
        if self.is_order:
            bits = struct.unpack(f"<{len(elements)}{CODES[self.dtype]}", data)
            return [self.code(*one) for one in zip(elements, bits)], 0
        if self.form:
            flags = 0 if all(is_finite(self.seen(x)) for x in elements) else NONFINITE
            elements = [self.whole(x, exponent) if is_finite(x) else 0 for x in elements]
        elif self.dtype in (INT32, UINT32) and any(abs(x) > (2**31 - 1) // self.size for x in elements):
            flags = RANGE
        if self.shape[0] == 2:
            elements += [0] * (len(elements) % 2)
            return [wrap(a + (b << 16)) for a, b in zip(elements[::2], elements[1::2])], flags
        if self.is_exact:
            digits = [self.spread(x) for x in elements]
            return [digit[row] for row in self.rows() for digit in digits], flags
        if self.shape[1] > 1:
            return [digit for x in elements for digit in self.spread(x)], flags
        return [wrap(x) for x in elements], flags

    def unpack(self, sums, exponent):
        """Sums of lanes, of floats in several lanes each: the elements."""
        each = self.shape[1]
        if self.is_exact:
            count, rows = len(sums) // each, self.rows()
            sums = [sums[rows.index(digit) * count + i] for i in range(count) for digit in range(each)]
        wholes = [sum(digit << i * self.digit for i, digit in enumerate(sums[at:at + each]))
                  for at in range(0, len(sums) - each + 1, each)]
        unit = power(self.shift(exponent)) * (self.size if self.op == AVG else 1)
        return [Fraction(whole) / unit for whole in wholes]

    # -- what all get --

    def result(self, datas, exponent):
        """Of (times, data) of every kind of rank: the elements, and how many were saturated."""
        columns = list(zip(*[self.elements(data) for _, data in datas]))
        times = [times for times, _ in datas]
        if self.is_raw:
            return datas[-1][1], 0
        if self.is_order:
            return self.order(datas), 0
        if self.form:
            sums = [self.float_sum(list(map(self.seen, column)), times, exponent) for column in columns]
            beyond = sum(not all(is_finite(self.seen(x)) for x in column) for column in columns)
            return self.data(sums), 0 if self.fixed is None else beyond
        sums = [sum(x * n for x, n in zip(column, times)) for column in columns]
        if self.op == AVG:
            sums = [abs(x) // self.size * (-1 if x < 0 else 1) for x in sums]
        low, high = RANGES[self.dtype]
        return self.data([max(low, min(high, x)) for x in sums]), sum(not low <= x <= high for x in sums)

    def float_sum(self, column, times, exponent):
        if not all(map(is_finite, column)):  # R-NUM-4
            kinds = set(x for x in column if not is_finite(x))
            return next(iter(kinds)) if len(kinds) == 1 else NAN
        whole = sum(self.whole(x, exponent) * n for x, n in zip(column, times))
        return Fraction(whole) / power(self.shift(exponent)) / (self.size if self.op == AVG else 1)

    def order(self, datas):
        """IEEE 754's maximum and minimum: a NaN is the result, and -0 is less than +0."""
        width, best = size_of(self.dtype), b""
        for i in range(0, len(datas[0][1]), width):
            parts = [data[i:i + width] for _, data in datas]
            numbers = [(self.elements(part)[0], not part[-1] >> 7 if self.form else True, part) for part in parts]
            if any(number[0] != number[0] for number in numbers):
                best += self.data([NAN])
            else:
                best += (max if self.op == MAX else min)(numbers)[2]
        return best


def lanes(expect, dtype, op, form, fixed, count, size, packet, can, shape=None, scale=None, *ranks):
    """What was recorded."""
    way = Lanes(dtype, op, count, size, packet, form, fixed)
    expect("R-NUM, what lanes can do", bool(can), way.can)
    if not can:
        return
    expect("R-NUM-8 to R-NUM-13, the shape of elements, R-WIRE-5", shape, [*way.shape, way.lane_op])
    *ranks, (saturated,), results = ranks
    exponent, flags = scale
    times, datas, found = [one for one, in ranks[::3]], ranks[1::3], ranks[2::3]
    elements = [x for data in datas for x in way.elements(data)]
    expect("R-NUM-1, the exponent", exponent, way.exponent(elements))
    packed = [way.pack(data, exponent) for data in datas]
    expect("R-NUM, lanes", found, [lanes for lanes, _ in packed])
    wanted_flags = 0
    for _, one in packed:
        wanted_flags |= one
    expect("R-NUM-4, R-NUM-5, sticky flags", flags, wanted_flags)
    wanted, beyond = way.result(list(zip(times, datas)), exponent)
    expect("R-NUM, results", results.hex(), wanted.hex())
    expect("R-NUM-6, saturated results", saturated, beyond)
