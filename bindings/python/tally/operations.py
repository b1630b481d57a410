# SPDX-License-Identifier: Apache-2.0
"""The operations of a communicator."""
from __future__ import annotations

import math
from typing import Any, Optional, Sequence, TypeVar

from . import _library as _l
from . import memory
from .options import Op, Options
from .work import Work

A = TypeVar("A")  # a numpy array, or a tensor with DLPack on the CPU

_NONE = memory.View(None, 0, -1, None)


def _shape(array: Any) -> tuple[int, ...]:
    return tuple(getattr(array, "shape", ()))


class Operations:
    """What a communicator can ask the others for: Communicator says how."""

    rank: int
    size: int

    def start(self, call: str, arguments: tuple[Any, ...], options: Optional[Options], value: A, keep: Any) -> Work[A]:
        raise NotImplementedError

    def iallreduce(self, array: A, op: Op = Op.SUM, out: Optional[A] = None, options: Optional[Options] = None) -> Work[A]:
        """The sum (minimum, ...) of all ranks' arrays, on all ranks, with the same bits. Shape: the array's."""
        send, recv, result = self._pair(array, out, _shape(array))
        return self.start("tally_iallreduce", (send.address, recv.address, send.elements, send.dtype, int(op)), options, result,
                           (send, recv))

    def allreduce(self, array: A, op: Op = Op.SUM, out: Optional[A] = None, options: Optional[Options] = None) -> A:
        """iallreduce, and waits."""
        return self.iallreduce(array, op, out, options).wait()

    def iallreduce_multi(self, arrays: Sequence[A], op: Op = Op.SUM, options: Optional[Options] = None) -> Work[Sequence[A]]:
        """Several arrays of one type as one operation, each in place; as fast as one array with the elements of all."""
        views = [memory.view(array, f"arrays[{i}]", True) for i, array in enumerate(arrays)]
        if len({view.dtype for view in views}) > 1:
            raise TypeError("tally: the arrays of one operation have one type")
        buffers = (_l.Buffer * len(views))(*[_l.Buffer(v.address, v.address, v.elements) for v in views])
        dtype = views[0].dtype if views else memory.FLOAT32
        return self.start("tally_iallreduce_multi", (buffers, len(views), dtype, int(op)), options, arrays, views)

    def allreduce_multi(self, arrays: Sequence[A], op: Op = Op.SUM, options: Optional[Options] = None) -> Sequence[A]:
        """iallreduce_multi, and waits."""
        return self.iallreduce_multi(arrays, op, options).wait()

    def ireduce(self, array: A, root: int = 0, op: Op = Op.SUM, out: Optional[A] = None,
                options: Optional[Options] = None) -> Work[Optional[A]]:
        """As iallreduce, for the root alone; None elsewhere."""
        self._check_root(root)
        if self.rank == root:
            send, recv, result = self._pair(array, out, _shape(array))
        else:
            send, recv, result = memory.view(array, "array"), _NONE, None
        return self.start("tally_ireduce", (send.address, recv.address, send.elements, send.dtype, int(op), root), options, result,
                           (send, recv))

    def reduce(self, array: A, root: int = 0, op: Op = Op.SUM, out: Optional[A] = None,
               options: Optional[Options] = None) -> Optional[A]:
        """ireduce, and waits."""
        return self.ireduce(array, root, op, out, options).wait()

    def ibroadcast(self, array: A, root: int = 0, options: Optional[Options] = None) -> Work[A]:
        """The root's array, into all ranks' arrays, which have its size and type."""
        self._check_root(root)
        view = memory.view(array, "array", self.rank != root)
        return self.start("tally_ibroadcast", (view.address, view.address, view.elements, view.dtype, root), options, array, view)

    def broadcast(self, array: A, root: int = 0, options: Optional[Options] = None) -> A:
        """ibroadcast, and waits."""
        return self.ibroadcast(array, root, options).wait()

    def iallgather(self, array: A, out: Optional[A] = None, options: Optional[Options] = None) -> Work[A]:
        """All ranks' arrays one after the other, on all ranks. Shape: (size, *array's); with options.counts one dimension."""
        send, recv, result = self._pair(array, out, self._all_shape(array, options))
        self._check_parts(recv, "out", options)
        return self.start("tally_iallgather", (send.address, recv.address, send.elements, send.dtype), options, result, (send, recv))

    def allgather(self, array: A, out: Optional[A] = None, options: Optional[Options] = None) -> A:
        """iallgather, and waits."""
        return self.iallgather(array, out, options).wait()

    def ireduce_scatter(self, array: A, op: Op = Op.SUM, out: Optional[A] = None,
                        options: Optional[Options] = None) -> Work[A]:
        """The array has a part for each rank, one after the other; the result is the sum of all ranks' parts for this one.
        Shape: the array's with its first length divided by size; with options.counts one dimension."""
        send, recv, result = self._pair(array, out, self._part_shape(array, options))
        self._check_parts(send, "array", options)
        return self.start("tally_ireduce_scatter", (send.address, recv.address, recv.elements, send.dtype, int(op)), options, result,
                           (send, recv))

    def reduce_scatter(self, array: A, op: Op = Op.SUM, out: Optional[A] = None, options: Optional[Options] = None) -> A:
        """ireduce_scatter, and waits."""
        return self.ireduce_scatter(array, op, out, options).wait()

    def igather(self, array: A, root: int = 0, out: Optional[A] = None, options: Optional[Options] = None) -> Work[Optional[A]]:
        """As iallgather, for the root alone; None elsewhere."""
        self._check_root(root)
        if self.rank == root:
            send, recv, result = self._pair(array, out, self._all_shape(array, options))
            self._check_parts(recv, "out", options)
        else:
            self._counts(options)
            send, recv, result = memory.view(array, "array"), _NONE, None
        return self.start("tally_igather", (send.address, recv.address, send.elements, send.dtype, root), options, result, (send, recv))

    def gather(self, array: A, root: int = 0, out: Optional[A] = None, options: Optional[Options] = None) -> Optional[A]:
        """igather, and waits."""
        return self.igather(array, root, out, options).wait()

    def iscatter(self, array: Optional[A], out: Optional[A] = None, root: int = 0, options: Optional[Options] = None) -> Work[A]:
        """The root's array has a part for each rank, one after the other; the result is this rank's. The root may leave `out`
        to tally (shape: its array's without the first dimension, which is `size`); the others give an `out`, and None for
        the array."""
        self._check_root(root)
        counts = self._counts(options)
        send = memory.view(array, "array") if self.rank == root else _NONE
        if out is None:
            shape = _shape(array)
            if self.rank != root or not shape or shape[0] != self.size or counts is not None:
                raise ValueError("tally: scatter needs an out, but at a root whose array has a first dimension of length size")
            out = memory.empty(array, tuple(shape[1:]))
        recv = memory.view(out, "out", True)
        self._same_type(send, recv)
        if self.rank == root:
            parts = [recv.elements] * self.size if counts is None else counts
            self._check_room(send, "array", parts, (options and options.displs) or ())
        return self.start("tally_iscatter", (send.address, recv.address, recv.elements, recv.dtype, root), options, out, (send, recv))

    def scatter(self, array: Optional[A], out: Optional[A] = None, root: int = 0, options: Optional[Options] = None) -> A:
        """iscatter, and waits."""
        return self.iscatter(array, out, root, options).wait()

    def ialltoall(self, array: A, out: Optional[A] = None, options: Optional[Options] = None) -> Work[A]:
        """The array has a part for each rank, one after the other; the result is rank 0's part for this rank, then rank 1's,
        and so on. Shape: the array's; with options.counts an `out` is needed. Never in place."""
        size = self.size
        counts = self._counts(options, size * size, 2 * size)
        if out is None and counts is not None:
            raise ValueError("tally: alltoall with counts needs an out")
        send, recv, result = self._pair(array, out, None if counts is not None else _shape(array))
        if counts is not None:
            places = (options and options.displs) or ()
            row = counts[self.rank * size:(self.rank + 1) * size]
            self._check_room(send, "array", row, places[:size])
            self._check_room(recv, "out", counts[self.rank::size], places[size:])
            count = sum(row)
        elif send.elements % size:
            raise ValueError(f"tally: alltoall of {send.elements} elements, which {size} ranks cannot share")
        else:
            count = send.elements // size
        return self.start("tally_ialltoall", (send.address, recv.address, count, send.dtype), options, result, (send, recv))

    def alltoall(self, array: A, out: Optional[A] = None, options: Optional[Options] = None) -> A:
        """ialltoall, and waits."""
        return self.ialltoall(array, out, options).wait()

    def isend(self, array: A, to: int, options: Optional[Options] = None) -> Work[A]:
        """To one rank, which calls recv. Complete when it has been received (tally_send(3): for few partners)."""
        view = memory.view(array, "array")
        return self.start("tally_isend", (view.address, view.elements, view.dtype, to), options, array, view)

    def send(self, array: A, to: int, options: Optional[Options] = None) -> A:
        """isend, and waits."""
        return self.isend(array, to, options).wait()

    def irecv(self, out: A, sender: int, options: Optional[Options] = None) -> Work[A]:
        """From one rank, which calls send, in the order of its sends."""
        view = memory.view(out, "out", True)
        return self.start("tally_irecv", (view.address, view.elements, view.dtype, sender), options, out, view)

    def recv(self, out: A, sender: int, options: Optional[Options] = None) -> A:
        """irecv, and waits."""
        return self.irecv(out, sender, options).wait()

    def ibarrier(self, options: Optional[Options] = None) -> Work[None]:
        """Complete when all ranks have called it."""
        return self.start("tally_ibarrier", (), options, None, None)

    def barrier(self, options: Optional[Options] = None) -> None:
        """ibarrier, and waits."""
        self.ibarrier(options).wait()

    def _check_root(self, root: int) -> None:
        if not 0 <= root < self.size:
            raise ValueError(f"tally: root {root}: ranks are 0 to {self.size - 1}")

    @staticmethod
    def _same_type(send: memory.View, recv: memory.View) -> None:
        if send.dtype not in (-1, recv.dtype):
            raise TypeError("tally: array and out have different types")

    def _pair(self, array: A, out: Optional[A], shape: Optional[Sequence[int]]) -> tuple[memory.View, memory.View, A]:
        """The views of both, and out, made if it is None. shape: the result's; None: unknown."""
        send = memory.view(array, "array")
        if out is None:
            if shape is None:
                raise ValueError("tally: with options.displs an out is needed")
            out = memory.empty(array, tuple(shape))
        recv = memory.view(out, "out", True)
        self._same_type(send, recv)
        if shape is not None and recv.elements != math.prod(shape):
            raise ValueError(f"tally: out has {recv.elements} elements, and the result {math.prod(shape)}")
        return send, recv, out

    def _all_shape(self, array: Any, options: Optional[Options]) -> Optional[tuple[int, ...]]:
        """Of all ranks' parts; None: with gaps."""
        if options and options.displs is not None:
            return None
        counts = self._counts(options)
        return (self.size, *array.shape) if counts is None else (sum(counts),)

    def _part_shape(self, array: Any, options: Optional[Options]) -> tuple[int, ...]:
        """Of this rank's part of an array that has all."""
        counts = self._counts(options)
        if counts is not None:
            return (counts[self.rank],)
        shape = tuple(array.shape)
        if not shape or shape[0] % self.size:
            raise ValueError(f"tally: {self.size} ranks cannot share an array of shape {shape}")
        return (shape[0] // self.size, *shape[1:])

    def _counts(self, options: Optional[Options], parts: int = 0, places: int = 0) -> Optional[Sequence[int]]:
        """options.counts; None: equal parts. libtally reads as many counts and displs as there are parts and places, on all
        ranks, and cannot see how many it is given. parts, places: 0: one for each rank."""
        counts, displs = (options.counts, options.displs) if options else (None, None)
        for name, numbers, wanted in (("counts", counts, parts or self.size), ("displs", displs, places or self.size)):
            if numbers is not None and len(numbers) != wanted:
                raise ValueError(f"tally: options.{name} has {len(numbers)} numbers, and {self.size} ranks need {wanted}")
        return counts

    def _check_parts(self, whole: memory.View, what: str, options: Optional[Options]) -> None:
        """An array that has all ranks' parts has room for them."""
        counts = self._counts(options)
        if counts is not None:
            self._check_room(whole, what, counts, (options and options.displs) or ())

    @staticmethod
    def _check_room(whole: memory.View, what: str, counts: Sequence[int], displs: Sequence[int]) -> None:
        end = max([at + n for at, n in zip(displs, counts) if n], default=0) if displs else sum(counts)
        if end > whole.elements or min([*displs, *counts], default=0) < 0:
            raise ValueError(f"tally: {what} has {whole.elements} elements, and its parts go from {min(displs, default=0)} to {end}")
