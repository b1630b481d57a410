# SPDX-License-Identifier: Apache-2.0
"""tally: sums of arrays across machines, in the network.

    import numpy, tally

    with tally.init() as comm:                     # rank and size from torchrun, mpirun, srun or `tally run`
        print(comm.allreduce(numpy.ones(4)))       # the sum over all ranks, on all ranks

Arrays are numpy's or, by DLPack, tensors on the CPU. Communicator has all operations; tally.torch is a backend for
torch.distributed, which `init_process_group("tally")` uses."""
from ._library import lib as _lib
from .communicator import Communicator, group
from .errors import (AbortedError, ArgumentError, DeadlineError, DeniedError, Error, InternalError, MismatchError,
                     NoMemoryError, NoResourceError, RangeError, ReduceError, RemoteError, SystemFailure, UnsupportedError, UsageError,
                     VersionError)
from .join import init, join, meet
from .log import set_log
from .options import Numbers, Op, Options, Stats, Stream
from .work import Work

SUM, PROD, MAX, MIN, AVG = Op.SUM, Op.PROD, Op.MAX, Op.MIN, Op.AVG
__version__: str = _lib.tally_get_version_text().decode()

__all__ = ["AVG", "AbortedError", "ArgumentError", "Communicator", "DeadlineError", "DeniedError", "Error", "InternalError",
           "MAX", "MIN", "MismatchError", "NoMemoryError", "NoResourceError", "Numbers", "Op", "Options", "PROD", "RangeError",
           "ReduceError", "RemoteError", "SUM", "Stats", "Stream", "SystemFailure", "UnsupportedError", "UsageError", "VersionError", "Work",
           "group", "init", "join", "meet", "set_log"]
