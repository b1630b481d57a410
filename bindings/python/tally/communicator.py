# SPDX-License-Identifier: Apache-2.0
"""Communicators: one rank's membership of one job, and what it can ask the others for."""
from __future__ import annotations

import atexit
import ctypes as c
import os
import sys
import threading
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Callable, Iterator, Optional

from . import _library as _l
from ._library import INTERRUPTED, OK, lib
from .errors import UsageError, error_of
from .operations import A, Operations
from .options import Options, Stats, make_options, op_options
from .work import Work

_living: set[Communicator] = set()  # until they are closed: libtally writes into arrays of what is in flight


def interruptible(call: Callable[[], int], stop: c.Array[c.c_char], give_up_s: float = 2) -> int:
    """call(), in a thread of its own: the main thread, which waits for it, can run signal handlers. If one raises, the call
    is told to end."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            result = call()
            outcome.append(result if result in (OK, INTERRUPTED) else error_of(result))
        except BaseException as error:
            outcome.append(error)

    if threading.current_thread() is not threading.main_thread():
        run()
    else:
        thread = threading.Thread(target=run, name="tally-call", daemon=True)
        thread.start()
        try:
            thread.join()
        except BaseException:
            stop[0] = b"1"
            thread.join(give_up_s)
            stop[0] = b"0"
            raise
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return int(outcome[0])


class Communicator(Operations):
    """One rank's membership of one job. Made by tally.init, tally.join, tally.meet and split(). All ranks call the same
    operations in the same order, with the same sizes, types, op and root; else each of them gets a MismatchError.

    Arrays are numpy's, or tensors with DLPack on the CPU; contiguous, of int8, uint8, int32, uint32, int64, uint64,
    float16, bfloat16, float32, float64, bool, complex64 or complex128. They are used where they are, and never copied. Each
    operation has two forms: one that waits and returns the result, and one with an i, which returns a Work. Until that is
    complete, its arrays belong to the operation: the receiving ones must not be read or written, the sending ones not
    written. `out` is where the result goes: None makes a new array, and `out=array` of the same array works in place.

    Errors are tally.Error; after one that the class says breaks the communicator, only abort, close, stats and dump work.
    `with` closes it at its end, or aborts the job if an exception has come."""

    def __init__(self, handle: _l.Handle, stop: c.Array[c.c_char], keep: Any = None) -> None:
        self._handle: _l.Handle = handle
        self._stop, self._keep, self._pid = stop, keep, os.getpid()
        self._flying: dict[int, Work[Any]] = {}
        self._sweep_at = 64
        self._is_closed = False
        self.rank: int = lib.tally_comm_rank(handle)  #: of this process, 0 to size - 1
        self.size: int = lib.tally_comm_size(handle)  #: how many ranks there are
        _living.add(self)


    def split(self, color: int, key: int = 0, **settings: Any) -> Optional[Communicator]:
        """A communicator of the ranks with the same color >= 0, numbered by key, then by rank; None with color < 0. All
        ranks call it. settings: as of tally.init, but aggregator and key."""
        self._check_open()
        options, stop, keep = make_options(**settings)
        handle = _l.Handle()
        interruptible(lambda: int(lib.tally_comm_split(self._handle, color, key, c.byref(options), c.byref(handle))), stop)
        return Communicator(handle, stop, keep) if handle else None

    def stats(self) -> Stats:
        """What it has done so far."""
        self._check_open()
        stats = _l.Stats(size=c.sizeof(_l.Stats))
        self._check(lib.tally_comm_get_stats(self._handle, c.byref(stats)))
        return Stats(*(getattr(stats, name) for name in Stats._fields))

    def dump(self, fd: int) -> None:
        """Writes its state to a file descriptor, as one JSON object: members, operations in flight, who is missing. Another
        thread may call it when this one hangs."""
        self._check_open()
        self._check(lib.tally_comm_dump(self._handle, fd))

    def error(self) -> Optional[Exception]:
        """The error that has broken it; None: it works. Never waits."""
        self._check_open()
        result = lib.tally_comm_get_async_error(self._handle)
        return error_of(result, self._handle) if result != OK else None

    def abort(self) -> None:
        """Ends the job on all ranks, from any thread, without waiting: here calls raise AbortedError, elsewhere
        RemoteError."""
        if not self._is_closed:
            lib.tally_comm_abort(self._handle)

    def close(self) -> None:
        """Waits for this rank's operations, and leaves the job. Where tally runs without an aggregator of its own (local
        mode), rank 0 also waits for the others to leave. A second call does nothing."""
        if self._is_closed:
            return
        try:
            if lib.tally_comm_get_async_error(self._handle) == OK:
                interruptible(lambda: int(lib.tally_comm_finalize(self._handle)), self._stop)
        except BaseException:
            self.abort()
            raise
        finally:
            self._free()

    def _free(self) -> None:
        self._is_closed = True
        _living.discard(self)
        if os.getpid() != self._pid:  # a forked child's: not its own
            return
        for work in list(self._flying.values()):
            work._finish(None)
        handle, self._handle = self._handle, _l.Handle()
        lib.tally_comm_destroy(handle)

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], _error: Optional[BaseException],
                 _traceback: Optional[TracebackType]) -> None:
        if kind is not None and not self._is_closed:
            self.abort()
            self._free()
        self.close()

    def __repr__(self) -> str:
        return f"<tally.Communicator: rank {self.rank} of {self.size}{', closed' if self._is_closed else ''}>"

    # ---- what all operations do ----

    def start(self, call: str, arguments: tuple[Any, ...], options: Optional[Options], value: A, keep: Any) -> Work[A]:
        """An operation by its name in tally.h, with the arguments that stand there before comm. For other bindings, which
        know the addresses of their arrays. value: what wait() returns; keep: what must live as long as the operation."""
        self._check_open()
        handle, raw = _l.Handle(), None
        raised: list[BaseException] = []
        if options is not None:
            lent = op_options(options, raised)
            raw, keep = c.byref(lent), (keep, options, lent)
        self._check(getattr(lib, call)(*arguments, self._handle, raw, c.byref(handle)))
        work = Work(self, handle, value, keep, raised)
        self._flying[id(work)] = work
        if len(self._flying) >= self._sweep_at:
            for other in list(self._flying.values()):
                other.done()
            self._sweep_at = max(64, 2 * len(self._flying))
        return work

    def _check(self, result: int) -> None:
        if result != OK:
            raise error_of(result, self._handle)

    def _check_open(self) -> None:
        if self._is_closed:
            raise UsageError("tally: the communicator is closed", 5)


@contextmanager
def group() -> Iterator[None]:
    """`with tally.group():` this thread's i-calls are only gathered inside, and start at its end; allreduces of one
    communicator, type and op become one operation. All ranks group in the same way."""
    result = lib.tally_group_start()
    if result != OK:
        raise error_of(result)
    try:
        yield
    finally:
        result = lib.tally_group_end()
    if result != OK:
        raise error_of(result)


def _at_exit() -> None:
    """Leaves the jobs that the program has not left; after an exception that ended it, the others are to know at once."""
    has_failed = getattr(sys, "last_type", None) is not None
    for comm in sorted(_living, key=lambda comm: comm.rank == 0):  # a rank 0 may wait for the others of its job
        if comm._is_closed or comm._pid != os.getpid():
            continue
        try:
            if has_failed:
                comm.abort()
            comm.close()
        except Exception as error:
            print(f"tally: at exit: {error}", file=sys.stderr)


atexit.register(_at_exit)
