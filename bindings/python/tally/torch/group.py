# SPDX-License-Identifier: Apache-2.0
"""The process group: what tally can do goes to tally, the rest to Gloo. Which of the two is decided by what torch wants to be
equal on all ranks anyway: the operation, types, sizes and the kind of memory. Not by how a tensor lies in it: those that are
not contiguous are copied."""
from __future__ import annotations

import hashlib
import itertools
import time
import uuid
from collections import Counter
from datetime import timedelta
from typing import Any, Optional, Sequence

import torch
import torch.distributed

from .. import memory
from ..communicator import group as one_message
from ..errors import Error
from ..join import meet
from ..options import Op, Options
from ..work import Work
from .work import TallyWork, as_torch

Tensors = Sequence[torch.Tensor]
dist: Any = torch.distributed  # not all that is used here has types

DTYPES = {
    torch.int8: memory.INT8, torch.uint8: memory.UINT8, torch.int32: memory.INT32, torch.uint32: memory.UINT32,
    torch.int64: memory.INT64, torch.uint64: memory.UINT64, torch.float16: memory.FLOAT16, torch.float32: memory.FLOAT32,
    torch.float64: memory.FLOAT64, torch.bfloat16: memory.BFLOAT16, torch.bool: memory.BOOL, torch.complex64: memory.COMPLEX64,
    torch.complex128: memory.COMPLEX128}
_KINDS = dist.ReduceOp.RedOpType
OPS = {_KINDS.SUM: Op.SUM, _KINDS.AVG: Op.AVG, _KINDS.PRODUCT: Op.PROD, _KINDS.MIN: Op.MIN, _KINDS.MAX: Op.MAX,
       _KINDS.BAND: Op.BAND, _KINDS.BOR: Op.BOR, _KINDS.BXOR: Op.BXOR}
_OF_GLOO = {"all_gather_single": "_allgather_base", "all_gather_single_coalesced": "allgather_into_tensor_coalesced",
            "reduce_scatter_single": "_reduce_scatter_base",
            "reduce_scatter_single_coalesced": "reduce_scatter_tensor_coalesced"}  # its own names in torch 2.13
DAY_S = 86400  # the longest that libtally waits for ranks to come
_BITS = (Op.BAND, Op.BOR, Op.BXOR)


def sums(op: Any, tensors: Tensors) -> Optional[Op]:
    """tally's operation for torch's, if tally has it for these tensors."""
    ours = OPS.get(getattr(op, "op", op))
    for tensor in tensors:
        dtype = tensor.dtype
        if ours is None or dtype not in DTYPES or tensor.layout is not torch.strided:
            return None
        if dtype is torch.bool and ours not in (Op.MIN, Op.MAX, *_BITS):
            return None
        if ours in _BITS and dtype.is_floating_point or dtype.is_complex and ours not in (Op.SUM, Op.AVG, Op.PROD):
            return None
    return ours


def on_cpu(*tensors: torch.Tensor) -> None:
    """tally sums what is in the host's memory."""
    for tensor in tensors:
        if not tensor.is_cpu:
            raise ValueError(f"tally: a tensor is on {tensor.device}, and this backend is for the CPU: copy it (tensor.cpu()), or "
                             'use init_process_group("cpu:gloo,cuda:nccl")')


def bytes_of(tensor: torch.Tensor) -> tuple[int, int]:
    """How many elements of which type: what is only moved may be of any type."""
    dtype = DTYPES.get(tensor.dtype)
    return (tensor.numel(), dtype) if dtype is not None else (tensor.numel() * tensor.element_size(), memory.UINT8)


def agreed(store: Any, rank: int, size: int, timeout_s: float) -> str:
    """A name that the ranks who make a group now agree upon, and no group before on this store has: some ranks may have tried
    before, and others not. Each writes a word of its own, and what it reads of all; when all have read the same, that is it."""
    end, pause = time.monotonic() + timeout_s, 0.002
    store.set(f"tally/at/{rank}", uuid.uuid4().hex)

    def of_all(what: str) -> list[bytes]:
        values = []
        for r in range(size):
            try:
                store.wait([f"tally/{what}/{r}"], timedelta(seconds=min(DAY_S, max(0.001, end - time.monotonic()))))
            except RuntimeError as error:  # each store has its own
                if time.monotonic() < end:
                    raise
                raise dist.DistBackendError(f"tally: Timed out : rank {r} has not come to init_process_group or new_group within "
                                            f"{timeout_s:g} s, and rank {rank} waits for it") from error
            values.append(store.get(f"tally/{what}/{r}"))
        return values

    while True:
        read = b"".join(of_all("at"))
        store.set(f"tally/read/{rank}", read)
        other = next((r for r, value in enumerate(of_all("read")) if value != read), None)
        if other is None:
            return hashlib.sha256(read).hexdigest()[:32]
        if time.monotonic() > end:
            raise dist.DistBackendError(f"tally: Timed out : rank {other} was here before, and has not come again within {timeout_s:g} s")
        time.sleep(pause)
        pause = min(2 * pause, 0.1)


class ProcessGroupTally(dist.ProcessGroup):  # type: ignore[misc] # a class of C++'s
    """Made by torch.distributed for the backend "tally"."""

    offloaded: Counter[str]  #: calls that went to tally
    passed_on: Counter[str]  #: and to Gloo

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        self._timeout = self._timeout_first = timeout.total_seconds()
        own = dist.PrefixStore(f"tally/{agreed(store, rank, size, self._timeout)}", store)
        self._gloo = dist.ProcessGroupGloo(dist.PrefixStore("gloo", own), rank, size, timeout)
        cpu = torch.device("cpu")
        self._register_backend(cpu, dist.ProcessGroup.BackendType.GLOO, self._gloo)
        self._set_default_backend(dist.ProcessGroup.BackendType.GLOO)
        self._rank, self._size = rank, size
        self.offloaded, self.passed_on = Counter(), Counter()
        calls = itertools.count()

        def allgather(mine: bytes) -> list[bytes]:
            call = next(calls)
            own.set(f"{call}/{rank}", mine)
            return [own.get(f"{call}/{r}") for r in range(size)]

        try:
            self._comm = meet(size, rank, allgather, init_timeout=min(self._timeout, DAY_S), deadline=self._timeout)
        except Error as error:
            raise as_torch(error) from None

    # ---- what all calls do ----

    def _options(self, opts: Any) -> Optional[Options]:
        """An operation has the group's time-out, but where it has its own."""
        given = getattr(opts, "timeout", None)
        seconds = given.total_seconds() if given is not None else -1
        seconds = seconds if seconds > 0 else self._timeout
        return None if seconds == self._timeout_first else Options(deadline=seconds)

    def _start(self, call: str, arguments: tuple[Any, ...], keep: Any, opts: Any) -> Work[None]:
        try:
            return self._comm.start(call, arguments, self._options(opts), None, keep)
        except Error as error:
            raise as_torch(error) from None

    def _pass(self, name: str, *arguments: Any) -> Any:
        self.passed_on[name] += 1  # not by super(): C++ calls the method of the same name here, if another one asks it
        name = name if hasattr(self._gloo, name) else _OF_GLOO[name]
        return getattr(self._gloo, name)(*arguments)

    def _work(self, name: str, works: Sequence[Work[None]], result: list[torch.Tensor], source: Optional[int] = None,
              finish: Any = None) -> TallyWork:
        self.offloaded[name] += 1
        return TallyWork(works, result, self._rank if source is None else source, finish)

    # ---- sums ----

    def allreduce(self, tensors: Any, opts: Any = None, timeout: Any = None) -> Any:
        tensors = [tensors] if isinstance(tensors, torch.Tensor) else tensors
        opts = _with_op(dist.AllreduceOptions, opts, timeout)
        op = sums(opts.reduceOp, tensors)
        if op is None or len(tensors) != 1:
            return self._pass("allreduce", tensors, opts)
        return self._sum("allreduce", tensors, op, opts)

    def allreduce_coalesced(self, tensors: list[torch.Tensor], opts: Any = None) -> Any:
        opts = opts or dist.AllreduceCoalescedOptions()
        op = sums(opts.reduceOp, tensors)
        if op is None or not tensors:
            return self._pass("allreduce_coalesced", tensors, opts)
        return self._sum("allreduce_coalesced", tensors, op, opts)

    def _sum(self, name: str, tensors: list[torch.Tensor], op: Op, opts: Any) -> Any:
        on_cpu(*tensors)
        if len(tensors) == 1 and tensors[0].is_contiguous():
            tensor, address = tensors[0], tensors[0].data_ptr()
            work = self._start("tally_iallreduce", (address, address, tensor.numel(), DTYPES[tensor.dtype], int(op)), tensor, opts)
            return self._work(name, [work], tensors)
        boxes, finish = _boxes(tensors)
        works = []
        with one_message():  # tensors of one type are one operation
            for box in boxes:
                address = box.data_ptr()
                works.append(self._start("tally_iallreduce", (address, address, box.numel(), DTYPES[box.dtype], int(op)), box, opts))
        return self._work(name, works, tensors, finish=finish)

    def reduce(self, tensors: Any, opts: Any = None, *rest: Any) -> Any:
        if isinstance(tensors, torch.Tensor):  # tensor, root, op, timeout
            tensors, root, opts = [tensors], opts, dist.ReduceOptions()
            opts.rootRank = root
            if rest:
                opts.reduceOp = rest[0]
        op = sums(opts.reduceOp, tensors)
        if op is None or len(tensors) != 1:
            return self._pass("reduce", tensors, opts)
        on_cpu(*tensors)
        boxes, finish = _boxes(tensors)
        address = boxes[0].data_ptr()
        work = self._start("tally_ireduce", (address, address, boxes[0].numel(), DTYPES[boxes[0].dtype], int(op), opts.rootRank),
                           boxes, opts)
        return self._work("reduce", [work], tensors, finish=finish if self._rank == opts.rootRank else None)

    def _reduce_scatter(self, name: str, outputs: Tensors, inputs: Tensors, op: Op, opts: Any) -> Any:
        """Each input has a part for each rank."""
        on_cpu(*outputs, *inputs)
        boxes, finish = _boxes(outputs)
        works = []
        for box, given in zip(boxes, inputs):
            if given.numel() != box.numel() * self._size:
                raise ValueError(f"input tensor must be the same size as output size times world size: {given.numel()} elements, "
                                 f"{self._size} times {box.numel()}")
            send = given.contiguous()
            works.append(self._start("tally_ireduce_scatter", (send.data_ptr(), box.data_ptr(), box.numel(), DTYPES[box.dtype],
                                                               int(op)), (send, box), opts))
        return self._work(name, works, list(outputs), finish=finish)

    def reduce_scatter_single(self, output: torch.Tensor, given: torch.Tensor, opts: Any = None) -> Any:
        opts = opts or dist.ReduceScatterOptions()
        op = sums(opts.reduceOp, [output, given])
        if op is None or output.dtype != given.dtype:
            return self._pass("reduce_scatter_single", output, given, opts)
        return self._reduce_scatter("reduce_scatter_single", [output], [given], op, opts)

    def reduce_scatter_single_coalesced(self, outputs: list[torch.Tensor], inputs: list[torch.Tensor],
                                        opts: Any = None) -> Any:
        opts = opts or dist.ReduceScatterOptions()
        op = sums(opts.reduceOp, [*outputs, *inputs])
        if op is None or any(output.dtype != given.dtype for output, given in zip(outputs, inputs)):
            return self._pass("reduce_scatter_single_coalesced", outputs, inputs, opts)
        return self._reduce_scatter("reduce_scatter_single_coalesced", outputs, inputs, op, opts)

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None, timeout: Any = None) -> Any:
        if isinstance(outputs, torch.Tensor):
            outputs, inputs = [outputs], [inputs]
        opts = _with_op(dist.ReduceScatterOptions, opts, timeout)
        parts = inputs[0] if inputs else []
        op = sums(opts.reduceOp, [*outputs, *parts])
        if op is None or len(outputs) != 1 or len(parts) != self._size or {part.numel() for part in parts} != {outputs[0].numel()}:
            return self._pass("reduce_scatter", outputs, inputs, opts)
        on_cpu(*parts)
        return self._reduce_scatter("reduce_scatter", outputs, [torch.cat([part.reshape(-1) for part in parts])], op, opts)

    # ---- what is only moved ----

    def broadcast(self, tensors: Any, opts: Any = None, timeout: Any = None) -> Any:
        if isinstance(tensors, torch.Tensor):
            tensors, root, opts = [tensors], opts, dist.BroadcastOptions()
            opts.rootRank = root
            if timeout is not None:
                opts.timeout = timeout
        if len(tensors) != 1 or tensors[0].layout is not torch.strided:
            return self._pass("broadcast", tensors, opts)
        on_cpu(*tensors)
        boxes, finish = _boxes(tensors)
        address = boxes[0].data_ptr()
        work = self._start("tally_ibroadcast", (address, address, *bytes_of(boxes[0]), opts.rootRank), boxes, opts)
        return self._work("broadcast", [work], tensors, opts.rootRank, finish if self._rank != opts.rootRank else None)

    def _allgather(self, name: str, outputs: Tensors, inputs: Tensors, opts: Any) -> Any:
        """Each output has all ranks' inputs, one after the other."""
        on_cpu(*outputs, *inputs)
        boxes, finish = _boxes(outputs)
        works = []
        for box, given in zip(boxes, inputs):
            if box.numel() != given.numel() * self._size:
                raise ValueError(f"output tensor size must be equal to world_size times input tensor size: {box.numel()} elements, "
                                 f"{self._size} times {given.numel()}")
            send = given.contiguous()
            works.append(self._start("tally_iallgather", (send.data_ptr(), box.data_ptr(), *bytes_of(send)), (send, box), opts))
        return self._work(name, works, list(outputs), finish=finish)

    def all_gather_single(self, output: torch.Tensor, given: torch.Tensor, opts: Any = None) -> Any:
        if output.dtype != given.dtype or output.layout is not torch.strided:
            return self._pass("all_gather_single", output, given, *([opts] if opts else []))
        return self._allgather("all_gather_single", [output], [given], opts)

    def all_gather_single_coalesced(self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None) -> Any:
        if any(output.dtype != given.dtype or output.layout is not torch.strided for output, given in zip(outputs, inputs)):
            return self._pass("all_gather_single_coalesced", outputs, inputs, *([opts] if opts else []))
        return self._allgather("all_gather_single_coalesced", outputs, inputs, opts)

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        if isinstance(inputs, torch.Tensor):
            outputs, inputs, opts = [outputs], [inputs], None
        parts, given = (outputs[0], inputs[0]) if len(inputs) == 1 and len(outputs) == 1 else ([], None)
        if given is None or len(parts) != self._size or any(
                part.dtype != given.dtype or part.numel() != given.numel() or part.layout is not torch.strided for part in parts):
            return self._pass("allgather", outputs, inputs, *([opts] if opts else []))
        on_cpu(given, *parts)
        box = torch.empty((self._size, given.numel()), dtype=given.dtype)

        def finish() -> None:
            for row, part in zip(box, parts):
                part.copy_(row.view(part.shape))

        send = given.contiguous()
        work = self._start("tally_iallgather", (send.data_ptr(), box.data_ptr(), *bytes_of(send)), (send, box), opts)
        return self._work("allgather", [work], parts, finish=finish)

    def barrier(self, opts: Any = None, timeout: Any = None) -> Any:
        return self._work("barrier", [self._start("tally_ibarrier", (), None, opts)], [])

    # Names of torch 2.12 and before.
    _allgather_base = all_gather_single
    _reduce_scatter_base = reduce_scatter_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    # ---- the rest ----

    def getBackendName(self) -> str:
        return "tally"

    def set_timeout(self, timeout: timedelta) -> None:
        """Of operations that follow."""
        self._timeout = timeout.total_seconds()
        super().set_timeout(timeout)

    def shutdown(self) -> None:
        """Leaves the job (destroy_process_group). Without an aggregator of its own, rank 0 waits for the others to leave."""
        try:
            self._comm.close()
        except Error as error:
            raise as_torch(error) from None

    def abort(self) -> None:
        """Ends the group's operations, on all ranks."""
        self._comm.abort()


def _with_op(kind: Any, opts: Any, timeout: Any) -> Any:
    """Options, of which torch lets callers also give the parts: an operation and a time-out."""
    if hasattr(opts, "reduceOp"):
        return opts
    made = kind()
    if opts is not None:
        made.reduceOp = opts
    if timeout is not None:
        made.timeout = timeout
    return made


def _boxes(tensors: Tensors) -> tuple[list[torch.Tensor], Any]:
    """Contiguous tensors for these, and a function that copies back those that are not themselves."""
    boxes = [tensor if tensor.is_contiguous() else tensor.detach().contiguous() for tensor in tensors]
    pairs = [(tensor, box) for tensor, box in zip(tensors, boxes) if tensor is not box]

    def finish() -> None:
        for tensor, box in pairs:
            tensor.copy_(box)

    return boxes, finish if pairs else None
