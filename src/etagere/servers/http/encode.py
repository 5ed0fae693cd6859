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
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    head = _encode(f"HTTP/1.1 {status} {phrase}\r\n{lines}{framing}\r\n")
    # A lone CR or LF ends a line here, too.
    if len(head.splitlines()) != len(headers) + framing.count("\n") + 2 or b"\0" in head:
        clean = [_clean(f"{name}: {value}") + "\r\n" for name, value in headers.items()]
        head = _encode(f"HTTP/1.1 {status} {phrase}\r\n{''.join(clean)}{framing}\r\n")
    return head


def _encode(text: str) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def _clean(text: str) -> str:
    return text.translate(_control)
