# SPDX-License-Identifier: Apache-2.0
"""replay_numbers.py - what core works out of its arguments alone: R-NUM, R-MAP and the shape of packets (R-WIRE)."""
import functools
import struct

import lanes
import packet
import quant
from quant import FLOAT32, INT32, INT32_MAX, INT32_MIN

OK, SHORT, VERSION, TYPE, LANES, LENGTH, FLAGS = range(7)  # enum wire_fault


class Differs(Exception):
    """The shipped code did what the rules do not say."""


def expect(rule, found, wanted):
    if found != wanted:
        raise Differs(f"{rule}: {found}, and by the rules {wanted}")


def floats_of(bits):
    return struct.unpack(f"<{len(bits)}f", struct.pack(f"<{len(bits)}i", *bits))


def bits_of(floats):
    return list(struct.unpack(f"<{len(floats)}i", struct.pack(f"<{len(floats)}f", *floats)))


def floats(workers, exponent, is_avg, own, sticky, bits, lanes, sums, results):
    values = floats_of(bits)
    wanted, wanted_sticky = quant.data(values, FLOAT32, exponent, workers)
    expect("R-NUM-1, the exponent of a chunk", own, quant.exponent_of(values))
    expect("R-NUM-2, lanes", lanes, wanted)
    expect("R-NUM-4, sticky flags", sticky, wanted_sticky)
    expect("R-NUM-3, results", results,
           bits_of(quant.unpack(sums, FLOAT32, exponent, workers, is_avg)))


def float_details(*lists):
    """Of each rank its elements and their lanes; before, element i was i."""
    *ranks, results = lists
    sums = [0] * len(results)
    for bits, lanes in zip(ranks[::2], ranks[1::2]):
        expect("R-NUM-4, lanes", lanes, quant.detail(floats_of(bits), FLOAT32))
        sums = [a + b for a, b in zip(sums, lanes)]
    expect("R-NUM-4, results", results, bits_of(
        [quant.amend(float(i), 0, high, FLOAT32, 1, False) for i, high in enumerate(sums)]))


def ints(workers, is_avg, bound, sticky, elements, lanes, results):
    wanted, wanted_sticky = quant.data(elements, INT32, 0, workers)
    expect("R-NUM-2, the bound of an element", bound, INT32_MAX // workers)
    expect("R-NUM-5, lanes", lanes, wanted)
    expect("R-NUM-5, sticky flags", sticky, wanted_sticky)
    expect("R-NUM-6, results", results, quant.unpack(lanes, INT32, 0, workers, is_avg))


def int_details(is_avg, *lists):
    """Of each kind of ranks how many there are, their elements and lanes."""
    *kinds, results, saturated = lists
    workers, sums = 0, [0] * len(results)
    for (times,), elements, lanes in zip(kinds[::3], kinds[1::3], kinds[2::3]):
        expect("R-NUM-6, lanes", lanes, quant.detail(elements, INT32))
        sums = [a + b * times for a, b in zip(sums, elements)]
        workers += times
    exact = [quant.average(one, workers) if is_avg else one for one in sums]
    wanted = [max(INT32_MIN, min(INT32_MAX, one)) for one in exact]
    expect("R-NUM-6, results", results, wanted)
    expect("R-NUM-6, saturated results", saturated, [sum(map(int.__ne__, exact, wanted))])


def place(shards, run, slots, found=None):
    """R-MAP-2 and R-MAP-3."""
    is_fit = 1 <= shards <= 64 and 1 <= run <= 64 and 4 + run <= slots <= 32768
    expect("R-MAP-2, whether slots fit", found is not None, is_fit)
    if not is_fit:
        return
    is_bulk, chunk, *said = found
    express = min(max(4, slots // 8), slots - run)
    pool, base = ((slots - express) // run * run, express) if is_bulk else (express, 0)
    run = run if is_bulk else 1
    group = chunk // run
    k = group // shards * run + chunk % run
    expect("R-MAP-3, shards, pool, run; shard, k, slot, chunk", said,
           [shards, pool, run, group % shards, k, base + k % pool, chunk])


def chunks(count, lanes, found, last, index, elements):
    wanted = max(1, -(-count // lanes))
    expect("R-MAP-5, chunks", found, wanted)
    expect("R-MAP-5, elements of the last", last, count - (wanted - 1) * lanes)
    expect("R-MAP-5, elements", elements, last if index + 1 == wanted else lanes)


def tag(number, kind, dtype, op, count, root, descriptor, index, found, name):
    expect("R-MAP-6, hash of an operation", descriptor,
           packet.descriptor_hash(number, kind, dtype, op, count, root, bytes(name).decode()))
    expect("R-MAP-6, tag", found, packet.tag_of(descriptor, index))


def fault_of(header, length):
    """R-WIRE-7, in its order, with the reason; packet.parse knows none."""
    if length < packet.HEADER.size:
        return SHORT
    first, flags = header[:2]
    kind, lanes = first & 15, header[18] << 8 | header[19]
    is_round = kind in (packet.UPDATE, packet.RESULT)
    is_hello = kind in (packet.HELLO, packet.WELCOME)
    if first >> 4 != 1:
        return VERSION
    if not packet.UPDATE <= kind <= packet.WELCOME:
        return TYPE
    most = packet.LANES_MAX if is_hello or is_round and flags & 3 != packet.EXPONENT else 0
    if lanes % 4 or not (packet.HELLO_LANES_MIN if is_hello else 0) <= lanes <= most:
        return LANES
    if length != packet.HEADER.size + 4 * lanes:
        return LENGTH
    return FLAGS if kind == packet.RESULT and flags & packet.BARE else OK


def one_packet(length, fault, header, again=None, fields=None):
    wanted = fault_of(header, length)
    expect("R-WIRE-7, what is wrong with a packet", fault, wanted)
    if wanted == OK:
        first, *rest = packet.HEADER.unpack(bytes(header))
        expect("R-WIRE-2, a header as it is read", fields, [first & 15, *rest])
        expect("R-WIRE-2, a header as it is written", again, header)


CALLS = {"floats": floats, "float_details": float_details, "ints": ints,
         "int_details": int_details, "map": place, "chunks": chunks, "tag": tag, "packet": one_packet,
         "lanes": functools.partial(lanes.lanes, expect)}
