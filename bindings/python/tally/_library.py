# SPDX-License-Identifier: Apache-2.0
"""libtally by ctypes: tally.h's structs, constants and functions, as they stand there. Nothing here is public."""
from __future__ import annotations

import ctypes as c
import os
from typing import Any

OK, IN_PROGRESS, INTERRUPTED = 0, 7, 108

Handle = c.c_void_p
AllgatherFn = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_void_p, c.c_size_t, c.c_void_p)
DoneFn = c.CFUNCTYPE(None, c.c_void_p, c.c_int, c.c_void_p)
ReduceFn = c.CFUNCTYPE(None, c.c_void_p, c.c_void_p, c.c_size_t, c.c_int, c.c_void_p)
LogFn = c.CFUNCTYPE(None, c.c_int, c.c_char_p, c.c_void_p)


class Options(c.Structure):
    """struct tally_options."""
    _fields_ = [("size", c.c_size_t), ("aggregator", c.c_char_p), ("local_size", c.c_uint32),
                ("init_timeout_s", c.c_uint32), ("window_packets", c.c_uint32), ("poll_count", c.c_uint32),
                ("flags", c.c_uint32), ("latency_slots", c.c_uint32), ("latency_window", c.c_uint32),
                ("deadline_ms", c.c_uint32), ("key", c.c_char_p), ("interrupted", c.c_void_p),
                ("interrupted_ctx", c.c_void_p)]


class OpOptions(c.Structure):
    """struct tally_op_options."""
    _fields_ = [("size", c.c_size_t), ("name", c.c_char_p), ("stream", c.c_int), ("deadline_ms", c.c_uint32),
                ("flags", c.c_uint32), ("counts", c.POINTER(c.c_size_t)), ("displs", c.POINTER(c.c_size_t)),
                ("reduce", ReduceFn), ("reduce_ctx", c.c_void_p), ("residual", c.c_void_p), ("scale", c.c_double)]


class Buffer(c.Structure):
    """struct tally_buffer."""
    _fields_ = [("send", c.c_void_p), ("recv", c.c_void_p), ("count", c.c_size_t)]


STATS = ("operations elements packets_out packets_in packets_resent results_ignored probes exponent_rounds detail_rounds "
         "chunks_express chunks_bulk saturated bytes_out bytes_in packets_bad / window srtt_us lanes shards slots run / "
         "gathered guess_rounds guesses_again window_yields window_losses window_presses shared")


def _stats_fields() -> list[tuple[str, Any]]:
    wide, narrow, last = (part.split() for part in STATS.split("/"))
    return [(name, c.c_uint64) for name in wide] + [(name, c.c_uint32) for name in narrow] + [
        (name, c.c_uint64) for name in last]


class Stats(c.Structure):
    """struct tally_stats."""
    _fields_ = [("size", c.c_size_t), *_stats_fields()]


_OP, _COMM, _WORK = c.POINTER(OpOptions), Handle, c.POINTER(Handle)
_ADDRESS, _COUNT = c.c_void_p, c.c_size_t
_TAIL = [_COMM, _OP, _WORK]
_ARGUMENTS: dict[str, list[Any]] = {
    "tally_comm_init": [c.POINTER(Handle), c.c_char_p, c.c_uint32, c.c_uint32, c.POINTER(Options)],
    "tally_comm_init_env": [c.POINTER(Handle), c.POINTER(Options)],
    "tally_comm_init_oob": [c.POINTER(Handle), c.c_uint32, c.c_uint32, AllgatherFn, c.c_void_p, c.POINTER(Options)],
    "tally_comm_split": [_COMM, c.c_int, c.c_int, c.POINTER(Options), c.POINTER(Handle)],
    "tally_comm_get_async_error": [_COMM],
    "tally_comm_get_stats": [_COMM, c.POINTER(Stats)],
    "tally_comm_dump": [_COMM, c.c_int],
    "tally_comm_finalize": [_COMM],
    "tally_comm_abort": [_COMM],
    "tally_iallreduce": [_ADDRESS, _ADDRESS, _COUNT, c.c_int, c.c_int, *_TAIL],
    "tally_iallreduce_multi": [c.POINTER(Buffer), _COUNT, c.c_int, c.c_int, *_TAIL],
    "tally_ireduce": [_ADDRESS, _ADDRESS, _COUNT, c.c_int, c.c_int, c.c_uint32, *_TAIL],
    "tally_ibroadcast": [_ADDRESS, _ADDRESS, _COUNT, c.c_int, c.c_uint32, *_TAIL],
    "tally_iallgather": [_ADDRESS, _ADDRESS, _COUNT, c.c_int, *_TAIL],
    "tally_ireduce_scatter": [_ADDRESS, _ADDRESS, _COUNT, c.c_int, c.c_int, *_TAIL],
    "tally_igather": [_ADDRESS, _ADDRESS, _COUNT, c.c_int, c.c_uint32, *_TAIL],
    "tally_iscatter": [_ADDRESS, _ADDRESS, _COUNT, c.c_int, c.c_uint32, *_TAIL],
    "tally_ialltoall": [_ADDRESS, _ADDRESS, _COUNT, c.c_int, *_TAIL],
    "tally_isend": [_ADDRESS, _COUNT, c.c_int, c.c_uint32, *_TAIL],
    "tally_irecv": [_ADDRESS, _COUNT, c.c_int, c.c_uint32, *_TAIL],
    "tally_ibarrier": _TAIL,
    "tally_test": [_WORK, c.POINTER(c.c_int)],
    "tally_wait": [_WORK, c.c_int],
    "tally_work_on_done": [Handle, DoneFn, c.c_void_p],
    "tally_group_start": [],
    "tally_group_end": [],
    "tally_set_log": [c.c_int, LogFn, c.c_void_p],
    "tally_get_version": [],
}


def _load() -> c.CDLL:
    """TALLY_LIBRARY, else the library in this package, else the system's."""
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", "libtally.so.0")
    name = os.environ.get("TALLY_LIBRARY") or (own if os.path.exists(own) else "libtally.so.0")
    try:
        library = c.CDLL(name)
    except OSError as error:
        raise ImportError(f"tally: cannot load libtally: {error}. Install the wheel, or name the library in TALLY_LIBRARY") from error
    for function, arguments in _ARGUMENTS.items():
        getattr(library, function).argtypes = arguments
    library.tally_comm_destroy.argtypes, library.tally_comm_destroy.restype = [_COMM], None
    library.tally_get_last_error.argtypes, library.tally_get_last_error.restype = [_COMM], c.c_char_p
    library.tally_strerror.argtypes, library.tally_strerror.restype = [c.c_int], c.c_char_p
    library.tally_get_version_text.argtypes, library.tally_get_version_text.restype = [], c.c_char_p
    for name in ("tally_comm_rank", "tally_comm_size"):
        getattr(library, name).argtypes, getattr(library, name).restype = [_COMM], c.c_uint32
    if not 100 <= library.tally_get_version() < 200:
        raise ImportError(f"tally: this package is for libtally 0.1, and {library._name} is "
                          f"{library.tally_get_version_text().decode()}")
    return library


lib = _load()

# An `interrupted` function that runs no Python: libc's atoi(3) of a string that is "0" until the wait should end. Were it
# Python's, a signal handler that raises might run at its beginning, where nothing can catch what it raises.
STOP_FN = c.cast(c.CDLL(None).atoi, c.c_void_p)
