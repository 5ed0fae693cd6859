"""Contents that name their version from end to end: a mix of two, or a half, is seen at once."""

line_bytes = 64


def content(version: str, size: int) -> bytes:
    line = _line(version, size)
    return (line * (size // line_bytes + 1))[:size]


def version_of(data: bytes) -> str | None:
    """The version that this is all of, or None."""
    found = version_within(data)
    return found[0] if found is not None and found[1] == len(data) else None


def version_within(data: bytes) -> tuple[str, int] | None:
    """The version, and the size of it, that a range consists of, or None; it begins with a line."""
    version, _, rest = data[:line_bytes].decode("latin-1").partition(":")
    size = rest.partition(";")[0]
    if not size.isdecimal() or len(data) > int(size):
        return None
    line = _line(version, int(size))
    if (line * (len(data) // line_bytes + 1))[: len(data)] != data:
        return None
    return version, int(size)


def _line(version: str, size: int) -> bytes:
    line = f"{version}:{size};".ljust(line_bytes, ".").encode()
    assert len(line) == line_bytes
    return line
