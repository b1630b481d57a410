# SPDX-License-Identifier: Apache-2.0
"""What can be chosen, for a communicator and for an operation."""
from __future__ import annotations

import ctypes as c
import enum
import math
from dataclasses import dataclass
from typing import Any, Callable, NamedTuple, Optional, Sequence

from . import _library as _l
from . import memory


def whole(seconds: float, unit: int) -> int:
    """A time as libtally takes it, in the unit-th parts of a second: rounded up, and 49 days of milliseconds at most."""
    if not seconds >= 0:
        raise ValueError(f"tally: a time of {seconds} s: it is 0 or more")
    return math.ceil(min(seconds * unit, 2**32 - 1))


class Op(enum.IntEnum):
    """What becomes of the elements. The pairs of MINLOC and MAXLOC are a value and its index, one after the other. USER: what
    Options.reduce makes of them."""
    SUM, PROD, MAX, MIN, AVG, BAND, BOR, BXOR, LAND, LOR, LXOR, MINLOC, MAXLOC, USER = range(14)


class Numbers(enum.IntEnum):
    """How sums of floats are made (docs/numbers.md): as 16 bits in half the room, exact in ten times the room, or with the
    same bits whatever was summed before. All ranks must choose the same."""
    DEFAULT, HALF, EXACT, STRICT = 0, 2, 4, 8


class Stream(enum.IntEnum):
    """Behind which operations an operation may have to wait. All ranks must choose the same."""
    AUTO, EXPRESS, BULK = range(3)


@dataclass(frozen=True)
class Options:
    """Of one operation. All ranks give the same, but of `deadline` and `residual`."""
    name: Optional[str] = None  #: shown in errors; up to 63 bytes
    stream: Stream = Stream.AUTO
    deadline: float = 0  #: seconds from the call on; 0: the communicator's
    numbers: Numbers = Numbers.DEFAULT
    scale: float = 0  #: of sums of float32: elements travel as multiples of 1 / scale; 0: none
    residual: Any = None  #: float32, as many as are summed: receives what rounding has kept out of the sum
    counts: Optional[Sequence[int]] = None  #: elements of each rank's part (of an alltoall: size * size); None: equal parts
    #: where these begin in the array that has all of them, for this rank alone; None: one after the other. alltoall: size of
    #: them for the array, and size for `out`. An `out` is needed, and keeps what is between the parts.
    displs: Optional[Sequence[int]] = None
    #: With Op.USER alone: reduce(array, inout) writes array op inout to inout. Both are numpy's, of one dimension (bfloat16 is
    #: uint16 there). Called on any thread; it must do the same on all ranks, and not wait for operations.
    reduce: Optional[Callable[[Any, Any], object]] = None


class Stats(NamedTuple):
    """tally_stats of tally.h: counts since the start; window, lanes, shards, slots and run as they are now; srtt in us."""
    operations: int
    elements: int
    packets_out: int
    packets_in: int
    packets_resent: int
    results_ignored: int
    probes: int
    exponent_rounds: int
    detail_rounds: int
    chunks_express: int
    chunks_bulk: int
    saturated: int
    bytes_out: int
    bytes_in: int
    packets_bad: int
    window: int
    srtt_us: int
    lanes: int
    shards: int
    slots: int
    run: int
    gathered: int
    guess_rounds: int
    guesses_again: int
    window_yields: int
    window_losses: int
    window_presses: int
    shared: int


def reduce_function(function: Callable[[Any, Any], object], raised: list[BaseException]) -> Any:
    """For libtally. What it raises is put into `raised`."""
    def call(given: int, inout: int, count: int, dtype: int, _ctx: Optional[int]) -> None:
        try:
            array = memory.numpy_at(given, count, dtype)
            array.flags.writeable = False
            function(array, memory.numpy_at(inout, count, dtype))
        except BaseException as error:
            raised.append(error)
    return _l.ReduceFn(call)


def op_options(options: Options, raised: list[BaseException]) -> _l.OpOptions:
    """As libtally takes them. They must live as long as the operation. raised: what Options.reduce raises then."""
    raw = _l.OpOptions(size=c.sizeof(_l.OpOptions), stream=int(options.stream), flags=int(options.numbers), scale=options.scale,
                       deadline_ms=whole(options.deadline, 1000))
    if options.name is not None:
        raw.name = options.name.encode()
    if options.counts is not None:
        raw.counts = (c.c_size_t * len(options.counts))(*options.counts)
    if options.displs is not None:
        raw.displs = (c.c_size_t * len(options.displs))(*options.displs)
    if options.reduce is not None:
        raw.reduce = reduce_function(options.reduce, raised)
    if options.residual is not None:
        raw.residual = memory.view(options.residual, "options.residual", True).address
    return raw


def make_options(aggregator: Optional[str] = None, init_timeout: float = 0, deadline: float = 0, key: Optional[str] = None,
                 local_size: int = 0, window_packets: int = 0, poll_count: int = 0, numbers: Numbers = Numbers.DEFAULT,
                 latency_slots: int = 0, latency_window: int = 0) -> tuple[_l.Options, c.Array[c.c_char], Any]:
    """tally_options, the string that interrupts, and what must live as long."""
    stop = c.create_string_buffer(b"0")
    options = _l.Options(
        size=c.sizeof(_l.Options), aggregator=aggregator.encode() if aggregator else None, local_size=local_size,
        init_timeout_s=whole(init_timeout, 1), window_packets=window_packets, poll_count=poll_count, flags=int(numbers),
        latency_slots=latency_slots, latency_window=latency_window, deadline_ms=whole(deadline, 1000),
        key=key.encode() if key else None, interrupted=_l.STOP_FN, interrupted_ctx=c.addressof(stop))
    return options, stop, options
