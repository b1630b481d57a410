# SPDX-License-Identifier: Apache-2.0
"""Operations in flight, as torch.distributed knows them."""
from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import Any, Callable, Optional, Sequence

import torch
import torch.distributed as dist

from .. import errors
from ..work import Work


HAND_OVER_S = 1e-4  # waking a thread of ours, and the one that waits for it, takes longer


def as_torch(error: Exception) -> Exception:
    """The exception that users of torch.distributed know, with the library's text, which names the rank."""
    late = "Timed out : " if isinstance(error, TimeoutError) else ""  # what torch's own tests look for
    known = dist.DistBackendError(f"tally: {late}{error}")
    known.__cause__ = error
    return known


class TallyWork(dist.Work):
    """Works of tally that are one to torch. `result` is what the future gives: its tensors, or one tensor; `finish` copies
    into it what does not lie there yet."""

    def __init__(self, works: Sequence[Work[Any]], result: Any, source: int,
                 finish: Optional[Callable[[], object]] = None) -> None:
        super().__init__()
        self._works, self._result, self._source, self._finish = works, result, source, finish
        self._lock = threading.Lock()
        self._future: Optional[torch.futures.Future[Any]] = None

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        """Waits, for `timeout` at most if it is above 0. DistBackendError: the operation has failed, and the text names the
        rank; or it has not ended in time, and is still in flight."""
        seconds = timeout.total_seconds() if timeout is not None else 0
        try:
            for work in self._works:
                work.wait(seconds if seconds > 0 else None)
        except (errors.Error, TimeoutError) as error:
            if not isinstance(error, errors.Error):
                error = TimeoutError(f"Operation timed out! {error}")
            raise as_torch(error) from None
        self._end()
        return True

    def _end(self) -> None:
        with self._lock:
            if self._finish is not None:
                with torch.no_grad():  # a leaf that requires grad is written too
                    self._finish()
                self._finish = None

    def get_future(self) -> torch.futures.Future[Any]:
        """Its functions are called on threads that may wait and start operations. It lives until the operation is complete.
        What is over sooner than threads would take to tell of it is waited for here, and the future is complete."""
        with self._lock:
            if self._future is not None:
                return self._future
            self._future = torch.futures.Future()
        end = time.monotonic() + HAND_OVER_S
        while not (is_over := all(work.done() for work in self._works)) and time.monotonic() < end:
            pass
        self._count_down(0 if is_over else len(self._works))
        return self._future

    def _count_down(self, left: int) -> None:
        """Waits for the works from the last on, each on the thread that tells of it."""
        if left:
            self._works[left - 1].add_done_callback(lambda _work: self._count_down(left - 1))
            return
        assert self._future is not None
        try:
            self.wait()
        except Exception as error:
            self._future.set_exception(error)
        else:
            self._future.set_result(self._result)

    def is_completed(self) -> bool:
        """With True, the results are where they belong."""
        if not all(work.done() for work in self._works):
            return False
        if not any(work.exception() for work in self._works):
            self._end()
        return True

    def is_success(self) -> bool:
        return self.is_completed() and not any(work.exception() for work in self._works)

    def exception(self) -> Optional[Exception]:
        for work in self._works:
            error = work.exception()
            if error is not None:
                return as_torch(error)
        return None

    def result(self) -> Any:
        self.wait()
        return self._result

    def source_rank(self) -> int:
        return self._source

    def synchronize(self) -> None:
        self.wait()
