# SPDX-License-Identifier: Apache-2.0
"""How a communicator begins."""
from __future__ import annotations

import ctypes as c
from typing import Any, Callable, Optional, Sequence

from . import _library as _l
from ._library import lib
from .communicator import Communicator, interruptible
from .options import make_options


def init(**settings: Any) -> Communicator:
    """Joins the job that the launcher's variables say: TALLY_RANK TALLY_SIZE TALLY_JOB, or those of torchrun, mpirun, srun or
    `tally run` (tally(7)). Waits until all ranks are there.

    settings, all optional: aggregator ("host:port[,host:port...]" or "local"; else TALLY_AGGREGATOR, else local if all ranks
    share a host), init_timeout and deadline (seconds), key, local_size, window_packets, poll_count, numbers (Numbers),
    latency_slots, latency_window. They are tally_options of tally.h.

    tally.Error: the variables are incomplete, the aggregator cannot be reached, ranks are missing (the text names them)."""
    options, stop, keep = make_options(**settings)
    handle = _l.Handle()
    interruptible(lambda: int(lib.tally_comm_init_env(c.byref(handle), c.byref(options))), stop)
    return Communicator(handle, stop, keep)


def join(job: str, size: int, rank: int, **settings: Any) -> Communicator:
    """Joins `job` as `rank` of `size`. job: 1 to 200 bytes, the same on all ranks. Otherwise as init."""
    options, stop, keep = make_options(**settings)
    handle = _l.Handle()
    interruptible(lambda: int(lib.tally_comm_init(c.byref(handle), job.encode(), size, rank, c.byref(options))), stop)
    return Communicator(handle, stop, keep)


def meet(size: int, rank: int, allgather: Callable[[bytes], Sequence[bytes]], **settings: Any) -> Communicator:
    """Joins ranks that can communicate already, by a store or MPI. allgather(mine) returns all ranks' bytes, in their order;
    it is called twice, maybe in another thread. Rank 0's aggregator and TALLY_JOB count. Each such job is one of its own.
    Otherwise as init. What allgather raises is raised here."""
    options, stop, keep = make_options(**settings)
    handle = _l.Handle()
    raised: list[BaseException] = []

    def gather(send: int, recv: int, count: int, _ctx: Optional[int]) -> int:
        try:
            parts = b"".join(allgather(c.string_at(send, count)))
            if len(parts) != count * size:
                raise ValueError(f"allgather has returned {len(parts)} bytes: {size} times {count} are needed")
            c.memmove(recv, parts, len(parts))
            return 0
        except BaseException as error:
            raised.append(error)
            return 1

    function = _l.AllgatherFn(gather)
    try:
        interruptible(lambda: int(lib.tally_comm_init_oob(c.byref(handle), size, rank, function, None, c.byref(options))), stop)
    except RuntimeError as error:
        if raised:
            raise raised[0] from error
        raise
    return Communicator(handle, stop, keep)
