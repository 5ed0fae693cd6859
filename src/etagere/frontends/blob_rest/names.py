"""What containers and blobs may be called (Azure: 'Naming and referencing containers, blobs')."""

import re
from typing import Final

from etagere.base.errors import Refused

container_chars_min: Final = 3
container_chars_max: Final = 63
blob_chars_max: Final = 1024
blob_segments_max: Final = 254
system_containers: Final = frozenset({"$root", "$web", "$logs", "$blobchangefeed"})

_container: Final = re.compile(r"[a-z0-9](?:-?[a-z0-9])*", re.ASCII)


def check_container_name(name: str) -> None:
    """Raise what an impossible name is refused with when it is to be created."""
    if name in system_containers:
        return
    if not container_chars_min <= len(name) <= container_chars_max:
        raise Refused("OutOfRangeInput")
    if _container.fullmatch(name) is None:
        raise Refused("InvalidResourceName")


def check_blob_name(name: str) -> None:
    if len(name) > blob_chars_max or name.count("/") >= blob_segments_max:
        raise Refused("OutOfRangeInput")
    if "\0" in name:
        raise Refused("InvalidResourceName")
