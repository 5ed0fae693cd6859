"""Contents that say what they are from end to end, so that a mix of two shows."""

import re

_head = re.compile(rb"\[([^|\]]+)\|(\d+)\]")
head_bytes_min = 40


def segment(name: str, size: int) -> bytes:
    """`size` bytes, and never less than the head takes, that name themselves again and again."""
    head = f"[{name}|{size}]".encode()
    fill = f"{name};".encode()
    assert size >= len(head)
    return (head + fill * (size // len(fill) + 1))[:size]


def read_segments(data: bytes) -> list[str] | None:
    """The names of the segments that these bytes are, or None if they are not whole."""
    names = []
    at = 0
    while at < len(data):
        found = _head.match(data, at)
        if found is None:
            return None
        name, size = found[1].decode(), int(found[2])
        if data[at : at + size] != segment(name, size):
            return None
        names.append(name)
        at += size
    return names
