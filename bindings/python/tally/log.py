# SPDX-License-Identifier: Apache-2.0
"""libtally's log, as Python's."""
from __future__ import annotations

import logging
from typing import Any, Optional

from ._library import LogFn, lib
from .errors import error_of

_LEVELS = {1: logging.ERROR, 2: logging.WARNING, 3: logging.INFO, 4: logging.DEBUG}
_kept: list[Any] = []  # libtally has their addresses


def set_log(level: int = logging.WARNING, logger: Optional[logging.Logger] = None) -> None:
    """Sends libtally's lines from `level` of the module logging on to `logger` (logging.getLogger("tally")), instead of
    those that TALLY_LOG chooses to stderr. For the whole process. Its handlers must not call tally."""
    target = logger or logging.getLogger("tally")

    def line(of: int, text: bytes, _arg: Optional[int]) -> None:
        target.log(_LEVELS.get(of, logging.WARNING), "%s", text.decode(errors="replace"))

    function = LogFn(line)
    _kept.append(function)
    wanted = max((number for number, name in _LEVELS.items() if name >= level), default=1)
    result = lib.tally_set_log(wanted, function, None)
    if result:
        raise error_of(result)
