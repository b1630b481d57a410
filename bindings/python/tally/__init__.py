# SPDX-License-Identifier: Apache-2.0
"""tally: sums of arrays across machines, in the network."""
from ._library import lib as _lib
from .errors import (AbortedError, ArgumentError, DeadlineError, DeniedError, Error, InternalError, MismatchError,
                     NoMemoryError, NoResourceError, RangeError, RemoteError, SystemFailure, UnsupportedError, UsageError,
                     VersionError)
from .options import Numbers, Op, Options, Stats, Stream

SUM, PROD, MAX, MIN, AVG = Op.SUM, Op.PROD, Op.MAX, Op.MIN, Op.AVG
__version__: str = _lib.tally_get_version_text().decode()

__all__ = ["AVG", "AbortedError", "ArgumentError", "DeadlineError", "DeniedError", "Error", "InternalError", "MAX", "MIN",
           "MismatchError", "NoMemoryError", "NoResourceError", "Numbers", "Op", "Options", "PROD", "RangeError", "RemoteError",
           "SUM", "Stats", "Stream", "SystemFailure", "UnsupportedError", "UsageError", "VersionError"]
