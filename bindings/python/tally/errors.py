# SPDX-License-Identifier: Apache-2.0
"""What libtally reports, as exceptions. Each has the library's text, which names the rank, its host and the operation."""
from __future__ import annotations

from ._library import lib


class Error(RuntimeError):
    """An error of libtally. `result` is its number in tally.h."""

    def __init__(self, text: str, result: int) -> None:
        super().__init__(text)
        self.result = result


class SystemFailure(Error):
    """The kernel refused something, or the aggregator cannot be reached."""


class InternalError(Error):
    """A bug in tally."""


class ArgumentError(Error, ValueError):
    """An argument of this call. Nothing was started; the communicator is intact."""


class UsageError(Error):
    """A call that is not allowed now: after close, in a forked child. The communicator is intact."""


class RemoteError(Error):
    """Another rank or the aggregator died, left or aborted. The communicator is broken."""


class DeadlineError(Error, TimeoutError):
    """A deadline has passed, on all ranks. The text names those that did not call. The communicator is broken."""


class MismatchError(Error):
    """The ranks called different operations. The text names the odd one out. The communicator is broken."""


class UnsupportedError(Error, TypeError):
    """Not in this version. Nothing was started; the communicator is intact."""


class VersionError(Error):
    """The aggregator speaks another version of the protocol."""


class AbortedError(Error):
    """Communicator.abort was called here."""


class NoResourceError(Error):
    """The aggregator has no room for this job."""


class NoMemoryError(Error, MemoryError):
    """Out of memory."""


class DeniedError(Error, PermissionError):
    """The aggregator refused this rank; the text says why."""


class RangeError(Error, OverflowError):
    """Latency mode: an element was too large for the sum, on all ranks. The communicator is intact."""


class ReduceError(Error):
    """Options.reduce raised on this rank: `__cause__` is what. The result is of no use; the communicator is intact."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(f"tally: the reduce function raised {cause!r}", 0)
        self.__cause__ = cause


_BY_RESULT: dict[int, type[Error]] = {
    2: SystemFailure, 3: InternalError, 4: ArgumentError, 5: UsageError, 6: RemoteError, 8: DeadlineError,
    100: MismatchError, 101: UnsupportedError, 102: VersionError, 103: AbortedError, 104: NoResourceError,
    105: NoMemoryError, 106: DeniedError, 107: RangeError}


def error_of(result: int, comm: object = None) -> Error:
    """The exception for a result. comm: the handle of a communicator, for its own text; None: this thread's last error."""
    text = (lib.tally_get_last_error(comm) or lib.tally_get_last_error(None) or lib.tally_strerror(result)).decode(errors="replace")
    return _BY_RESULT.get(result, Error)(text, result)
