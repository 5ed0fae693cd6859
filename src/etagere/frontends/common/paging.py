"""Continuation markers: where the next page begins, packed so that nobody reads meaning into it."""

import base64
import binascii
from typing import Final

from etagere.kv.tuples import Item, MalformedTuple, pack, unpack

_head: Final = "2!"


def encode_marker(*position: Item) -> str:
    """The live service's form, `2!length!base64`, so that clients that look find nothing odd."""
    text = base64.urlsafe_b64encode(pack(*position)).decode().rstrip("=")
    return f"{_head}{len(text)}!{text}"


def decode_marker(marker: str) -> tuple[Item, ...]:
    """The position; a marker that we did not make counts as a name to go on from."""
    if not marker.startswith(_head):
        return (marker,)
    length, _, text = marker[len(_head) :].partition("!")
    if length != str(len(text)):
        return (marker,)
    padded = text + "=" * (-len(text) % 4)
    try:
        return unpack(base64.b64decode(padded.encode("ascii"), b"-_", validate=True))
    except (MalformedTuple, binascii.Error, ValueError):
        return (marker,)
