# SPDX-License-Identifier: Apache-2.0
"""Tells torch of the backend. The wheel has torch call this at each `import torch` (its entry points "torch.backends"), so it
loads tally and libtally only when a group is made: programs that do not use it must not fail with it."""
from __future__ import annotations

from typing import Any


def create(store: Any, rank: int, size: int, timeout: Any) -> Any:
    """Makes a process group."""
    from tally.torch.group import ProcessGroupTally
    return ProcessGroupTally(store, rank, size, timeout)


def register() -> None:
    """Registers the backend "tally", once."""
    import torch.distributed as dist
    if dist.is_available() and not hasattr(dist.Backend, "TALLY"):
        dist.Backend.register_backend("tally", create, devices=["cpu"])
