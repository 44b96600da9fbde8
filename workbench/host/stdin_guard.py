"""What needs a person at the keyboard: refused in a worker, where it would wait forever."""

from __future__ import annotations

import builtins
import getpass
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from workbench.errors import UnattendedError


def install() -> None:
    """From now on they raise. pdb asks through ``input`` too."""
    answer = "ask in the notebook, and let the cell read the answer from a variable."
    native: Any = builtins
    native.input = _refusing("input()", answer)
    getpass.getpass = _refusing("getpass()", answer)
    sys.breakpointhook = _refusing("breakpoint()", "run the code in the notebook to debug it.")


def _refusing(what: str, instead: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise UnattendedError(f"{what} needs a person, and nobody sits at a worker: {instead}")

    return refuse
