"""Which Python a bench runs on, and whether it is one to judge speed by."""

import platform
import sys
import sysconfig
from typing import Final

_hint: Final = (
    "It was compiled without --enable-optimizations, and takes 5 to 16 % more CPU for a request "
    "than one that was compiled with them, such as a distribution's own."
)


def description() -> str:
    """A line for the top of the results, and another where they would be better elsewhere."""
    line = f"Python {platform.python_version()} of {sys.base_prefix}"
    return line if is_optimised() else f"{line}\n{_hint}"


def is_optimised() -> bool:
    """Distributions compile theirs with profiles by scripts of their own, and do not say so."""
    arguments = str(sysconfig.get_config_var("CONFIG_ARGS") or "")
    return "--enable-optimizations" in arguments or sys.base_prefix == "/usr"
