# SPDX-License-Identifier: Apache-2.0
"""The operations of a communicator."""
from __future__ import annotations

from typing import Any, Optional, TypeVar

from .options import Options
from .work import Work

A = TypeVar("A")  # a numpy array, or a tensor with DLPack on the CPU


class Operations:
    """What a communicator can ask the others for: Communicator says how."""

    rank: int
    size: int

    def start(self, call: str, arguments: tuple[Any, ...], options: Optional[Options], value: A, keep: Any) -> Work[A]:
        raise NotImplementedError

    def ibarrier(self, options: Optional[Options] = None) -> Work[None]:
        """Complete when all ranks have called it."""
        return self.start("tally_ibarrier", (), options, None, None)

    def barrier(self, options: Optional[Options] = None) -> None:
        """ibarrier, and waits."""
        self.ibarrier(options).wait()
