"""What queues may be called (Azure: 'Naming queues and metadata')."""

import re
from typing import Final

from etagere.base.errors import Refused

queue_chars_min: Final = 3
queue_chars_max: Final = 63

_queue: Final = re.compile(r"[a-z0-9](?:-?[a-z0-9])*", re.ASCII)


def check_queue_name(name: str) -> None:
    """Raise what an impossible name is refused with, whatever is asked of it."""
    if not queue_chars_min <= len(name) <= queue_chars_max:
        raise Refused("OutOfRangeInput")
    if _queue.fullmatch(name) is None:
        raise Refused("InvalidResourceName")
