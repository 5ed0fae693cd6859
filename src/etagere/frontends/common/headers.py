"""Request headers and query values that several services read the same way."""

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Final

from etagere.base.errors import (
    Refused,
    invalid_header,
    invalid_query,
    missing_header,
    query_out_of_range,
)
from etagere.frontends.common.message import Request

metadata_prefix: Final = "x-ms-meta-"
metadata_bytes_max: Final = 8 * 1024
list_results_max: Final = 5000
_digest_bytes: Final = {"md5": 16, "crc64": 8}

# Metadata names are C# identifiers; a name that Python takes for one is close, but for keywords
# and the letters that only one of the two knows.
_identifier: Final = re.compile(r"[^\W\d]\w*")
_integer: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


def metadata(request: Request) -> dict[str, str]:
    """`x-ms-meta-*`, with names as the client spelt them."""
    found: dict[str, str] = {}
    for header, value in request.headers.items():
        if header.startswith(metadata_prefix):
            name = request.spelling.get(header, header)[len(metadata_prefix) :]
            if not name:
                raise Refused("EmptyMetadataKey")
            if _identifier.fullmatch(name) is None or not _plain(value):
                raise Refused(
                    "InvalidMetadata",
                    {"HeaderName": f"{metadata_prefix}{name}", "HeaderValue": value},
                )
            found[name] = value.strip()
    if found and sum(len(name) + len(value) for name, value in found.items()) > metadata_bytes_max:
        raise Refused("MetadataTooLarge")
    return found


def _plain(value: str) -> bool:
    return value.isascii() and (value.isprintable() or value.replace("\t", "").isprintable())


def metadata_headers(names: Mapping[str, str]) -> dict[str, str]:
    return {f"{metadata_prefix}{name}": value for name, value in names.items()}


def required(request: Request, name: str) -> str:
    value = request.headers.get(name)
    if not value:
        raise missing_header(name)
    return value


def integer(request: Request, name: str, low: int, high: int) -> int | None:
    """A header that holds a whole number within bounds, if it is there."""
    value = request.headers.get(name)
    if not value:
        return None
    number = int(value) if _integer.fullmatch(value) else None
    if number is None or not low <= number <= high:
        raise invalid_header(name, value)
    return number


def boolean(request: Request, name: str, *, default: bool = False) -> bool:
    value = request.headers.get(name)
    if not value:
        return default
    if value.lower() not in ("true", "false"):
        raise invalid_header(name, value)
    return value.lower() == "true"


def query_integer(request: Request, name: str) -> int | None:
    """A query value that is a whole number, whatever its size."""
    value = request.query.get(name)
    if value is None:
        return None
    if _integer.fullmatch(value) is None:
        raise invalid_query(name, value, "The value must be a whole number.")
    return int(value)


def max_results(request: Request) -> int | None:
    """`maxresults`: above the cap it is clipped, below 1 it is refused."""
    number = query_integer(request, "maxresults")
    if number is None:
        return None
    if number < 1:
        raise query_out_of_range("maxresults", str(number), 1, list_results_max)
    return min(number, list_results_max)


def body_length(request: Request) -> int:
    """Content-Length, which writes must state (411) and state well (400)."""
    if request.content_length is None:
        value = request.headers.get("content-length")
        if value is None:
            raise Refused("MissingContentLengthHeader")
        raise invalid_header("Content-Length", value)
    return request.content_length


def digest(request: Request, name: str, kind: str) -> bytes | None:
    """A base64 digest header: `md5` of 16 bytes or `crc64` of 8."""
    value = request.headers.get(name)
    if not value:
        return None
    raw = decode_base64(value)
    if raw is None or len(raw) != _digest_bytes[kind]:
        if kind == "md5":
            raise Refused("InvalidMd5", {"HeaderName": name, "HeaderValue": value})
        raise invalid_header(name, value)
    return raw


def decode_base64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def encode_base64(raw: bytes) -> str:
    return binascii.b2a_base64(raw, newline=False).decode()
