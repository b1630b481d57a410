# SPDX-License-Identifier: Apache-2.0
"""Operations in flight."""
from __future__ import annotations

import asyncio
import ctypes as c
import itertools
import queue
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Generator, Generic, Optional, TypeVar

from ._library import IN_PROGRESS, INTERRUPTED, OK, DoneFn, Handle, lib
from .errors import Error, ReduceError, error_of

if TYPE_CHECKING:
    from .communicator import Communicator

T = TypeVar("T")

SLICE_MS = 50  # a wait returns to Python this often: its signal handlers run between its own steps alone


class Runner:
    """Threads that call functions, each as soon as it comes: there is always one that waits for the next. So a function may
    wait for what another one does."""

    def __init__(self) -> None:
        self._functions: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0

    def call(self, function: Callable[[], None]) -> None:
        with self._lock:
            self._idle -= 1
            lacks = self._idle < 0
            if lacks:
                self._idle += 1
        self._functions.put(function)
        if lacks:
            threading.Thread(target=self._serve, name="tally-done", daemon=True).start()

    def _serve(self) -> None:
        while True:
            self._functions.get()()
            with self._lock:
                self._idle += 1


runner = Runner()
_numbers = itertools.count(1)
_awaited: dict[int, Work[Any]] = {}  # those whose completion libtally is to tell


def _on_done(_handle: Optional[int], _result: int, number: int) -> None:
    """On a thread of libtally's, which has other things to do."""
    work = _awaited.pop(number, None)
    if work is not None:
        runner.call(work._complete)


_tell = DoneFn(_on_done)  # libtally has its address


class Work(Generic[T]):
    """An operation in flight, and its result. All methods may be called from any thread. An operation continues if its Work
    is forgotten: the communicator keeps it, and its arrays, until it is complete.

    `await work` waits for it in asyncio, and returns what wait() returns."""

    __slots__ = ("_comm", "_handle", "_keep", "_value", "_lock", "_is_done", "_error", "_raised", "_callbacks", "__weakref__")

    def __init__(self, comm: Communicator, handle: Handle, value: T, keep: Any, raised: list[BaseException]) -> None:
        self._comm, self._handle, self._value, self._keep, self._raised = comm, handle, value, keep, raised
        self._lock = threading.Lock()
        self._is_done = False
        self._error: Optional[Error] = None
        self._callbacks: Optional[list[Callable[[Work[T]], object]]] = None

    def wait(self, timeout: Optional[float] = None) -> T:
        """Waits until the operation is complete, `timeout` seconds at most, and returns its result.

        TimeoutError: it is not complete yet; it is still in flight, and its arrays are not to be touched. tally.Error: the
        operation has failed, with the library's text. Ctrl-C ends a wait (KeyboardInterrupt), not the operation."""
        if not self._is_done and not self._finish(timeout):
            raise TimeoutError(f"tally: the operation is not complete after {timeout} s; it is still in flight")
        if self._error is not None:
            raise self._error
        return self._value

    def done(self) -> bool:
        """Whether it is complete. Never waits."""
        return self._is_done or self._finish(0)

    def exception(self) -> Optional[Error]:
        """Why it has failed; None: it has not, or not yet."""
        return self._error if self.done() else None

    def add_done_callback(self, function: Callable[[Work[T]], object]) -> None:
        """Calls function(work) once, when it is complete, on a thread that may wait and start operations; at once, on this
        thread, if it is complete."""
        with self._lock:
            if not self._is_done:
                if self._callbacks is not None:
                    self._callbacks.append(function)
                    return
                self._callbacks = [function]
                number = next(_numbers)
                _awaited[number] = self
                result = lib.tally_work_on_done(self._handle, _tell, number)
                if result == OK:
                    return
                del _awaited[number]
                self._callbacks = None
                raise error_of(result, self._comm._handle)
        function(self)

    def __await__(self) -> Generator[Any, None, T]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def tell() -> None:
            if not future.done():
                future.set_result(None)

        def wake(_work: Work[T]) -> None:
            try:
                loop.call_soon_threadsafe(tell)
            except RuntimeError:
                pass  # the loop has been closed: nobody awaits this any more

        self.add_done_callback(wake)
        yield from future
        return self.wait()

    def _finish(self, timeout: Optional[float]) -> bool:
        """Waits, and takes the result; whether it is complete."""
        end = None if timeout is None else time.monotonic() + timeout
        if not self._lock.acquire(timeout=-1 if timeout is None else min(max(timeout, 0), threading.TIMEOUT_MAX)):
            return False
        try:
            while not self._is_done:
                left = SLICE_MS if end is None else min(SLICE_MS, max(0, int((end - time.monotonic()) * 1000 + 0.999)))
                result = lib.tally_wait(c.byref(self._handle), left)
                if result not in (IN_PROGRESS, INTERRUPTED):
                    if result != OK:
                        self._error = error_of(result, self._comm._handle)
                    elif self._raised:
                        self._error = ReduceError(self._raised[0])
                    self._is_done, self._keep = True, None
                    self._comm._flying.pop(id(self), None)
                elif left == 0:
                    return False
        finally:
            self._lock.release()
        return True

    def _complete(self) -> None:
        """libtally has told that it is complete."""
        self._finish(None)
        callbacks, self._callbacks = self._callbacks or [], None
        for function in callbacks:
            try:
                function(self)
            except Exception:
                import traceback
                traceback.print_exc()
