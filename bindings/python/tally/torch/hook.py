# SPDX-License-Identifier: Apache-2.0
"""Only the gradients of DistributedDataParallel through tally; everything else stays with the group's own backend."""
from __future__ import annotations

from typing import Any, Optional

import torch
import torch.distributed as dist

from ..communicator import Communicator
from ..join import meet
from ..options import Op
from .group import DTYPES, on_cpu
from .work import TallyWork


def communicator(group: Optional[dist.ProcessGroup] = None, **settings: Any) -> Communicator:
    """A communicator of the ranks of a process group (None: the default one) of any backend. All of them call it. settings: as
    of tally.init. The caller closes it."""

    def allgather(mine: bytes) -> list[bytes]:
        parts: list[Any] = [None] * dist.get_world_size(group)
        dist.all_gather_object(parts, mine, group=group)
        return parts

    return meet(dist.get_world_size(group), dist.get_rank(group), allgather, **settings)


def allreduce_hook(comm: Communicator, bucket):  # type: ignore[no-untyped-def] # torch compares types with its own, not texts
    """The mean of the gradients, as DDP's own: model.register_comm_hook(tally.torch.communicator(), tally.torch.allreduce_hook)."""
    tensor = bucket.buffer()
    on_cpu(tensor)
    address = tensor.data_ptr()
    work: Any = comm.start("tally_iallreduce", (address, address, tensor.numel(), DTYPES[tensor.dtype], int(Op.AVG)), None, None, tensor)
    return TallyWork([work], tensor, comm.rank).get_future()
