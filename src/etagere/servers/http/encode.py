"""A response's head as bytes."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

_phrases: Final = {status.value: status.phrase for status in HTTPStatus}
_control: Final = dict.fromkeys((*range(9), *range(10, 32), 127), " ")
bodiless: Final = frozenset({204, 304})


def encode_head(status: int, reason: str, headers: Mapping[str, str], framing: str) -> bytes:
    """Status line, headers, `framing` (whole lines of our own), and the empty line.

    A value may hold what a client chose (`rscd` of a SAS, metadata): a line break in one would
    let it write headers of its own, so control characters become spaces.
    """
    phrase = _clean(reason) if reason else _phrases.get(status, "")
    lines = [f"HTTP/1.1 {status} {phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    head = _encode("\r\n".join(lines), framing)
    breaks = len(lines) + 1 + framing.count("\n")
    if head.count(b"\n") != breaks or head.count(b"\r") != breaks or b"\0" in head:
        head = _encode("\r\n".join([_clean(line) for line in lines]), framing)
    return head


def _encode(text: str, framing: str) -> bytes:
    whole = f"{text}\r\n{framing}\r\n"
    try:
        return whole.encode("latin-1")
    except UnicodeEncodeError:
        return whole.encode("utf-8", "replace")


def _clean(text: str) -> str:
    return text.translate(_control)
