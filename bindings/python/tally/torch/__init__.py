# SPDX-License-Identifier: Apache-2.0
"""tally for PyTorch: the backend of torch.distributed.init_process_group("tally"), and a hook for DistributedDataParallel.

Where the wheel is installed, torch finds the backend by itself; elsewhere `import tally.torch` registers it. The group has two
counters of calls by name: `offloaded` to tally, and `passed_on` to Gloo."""
import types
from typing import Any

import torch

if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 9):
    raise ImportError(f"tally.torch needs torch 2.9 or later, and this is {torch.__version__}: older ones lose works that are "
                      "written in Python (tally itself, for numpy, works beside any torch)")

from tally_autoload import register  # noqa: E402
from .group import ProcessGroupTally  # noqa: E402
from .hook import allreduce_hook, communicator  # noqa: E402
from .work import TallyWork  # noqa: E402



def _leave_uncompiled(*places: Any) -> None:
    """torch.compile compiles each function that runs while it is at work, also those that torch's C++ calls here: not these,
    and nothing that they call."""
    from torch._C._dynamo import eval_frame as of_torch
    compiler: Any = of_torch  # it has more than its types say
    skip = compiler._FrameExecStrategy(compiler._FrameAction.SKIP, compiler._FrameAction.SKIP)
    for place in places:
        for thing in vars(place).values():
            if isinstance(thing, types.FunctionType):
                compiler.set_code_exec_strategy(thing.__code__, skip)


_leave_uncompiled(ProcessGroupTally, TallyWork)
register()

__all__ = ["ProcessGroupTally", "TallyWork", "allreduce_hook", "communicator", "register"]
