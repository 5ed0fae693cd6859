"""Contents that name their version from end to end: a mix of two, or a half, is seen at once."""

line_bytes = 64


def content(version: str, size: int) -> bytes:
    line = f"{version}:{size};".ljust(line_bytes, ".").encode()
    assert len(line) == line_bytes
    return (line * (size // line_bytes + 1))[:size]


def version_of(data: bytes) -> str | None:
    """The version that this is all of, or None."""
    named, _, rest = data[:line_bytes].decode("latin-1").partition(":")
    size = rest.partition(";")[0]
    if not size.isdecimal() or int(size) != len(data) or content(named, int(size)) != data:
        return None
    return named
