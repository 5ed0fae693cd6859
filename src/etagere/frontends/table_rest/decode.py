"""JSON bodies and query options of the Table service, as values that operations take."""

import json
from collections.abc import Mapping
from typing import Final, NoReturn, cast

import msgspec

from etagere.base.errors import Refused
from etagere.frontends.table_rest import continuation
from etagere.services.table import filter_plan
from etagere.services.table.edm import invalid_input
from etagere.services.table.filter_parse import Condition
from etagere.services.table.filter_parse import parse as parse_filter
from etagere.services.table.filter_plan import Position
from etagere.services.table.query import page_entities_max
from etagere.services.table.shape import members_written

select_names_max: Final = 1024
_fast_decode: Final = msgspec.json.Decoder(dict[str, object]).decode

_unsupported_options: Final = ("$orderby", "$skip", "$inlinecount", "$expand", "$count", "$apply")


def _refuse_constant(_name: str) -> NoReturn:
    raise ValueError("NaN and Infinity are no JSON")


# Members as pairs: a property that is there twice must not vanish before anybody has seen it.
_decoder: Final = json.JSONDecoder(
    object_pairs_hook=tuple, parse_constant=_refuse_constant, strict=True
)


def members(body: bytes) -> list[tuple[str, object]]:
    """The members of the JSON object that a body is, in the order sent."""
    try:
        decoded = _decoder.decode(body.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise invalid_input("The body is not valid JSON.") from None
    # An object is a tuple, whereas a JSON array is a list.
    if type(decoded) is not tuple:
        raise invalid_input("The body must be one JSON object.")
    return cast("list[tuple[str, object]]", decoded)


def members_once(body: bytes) -> dict[str, object] | None:
    """The members of the object that a body is, if it is plain that none is there twice.

    This decoder is four times as fast and keeps only the last of members with one name, so their
    number has to be what can be counted.
    """
    try:
        own = _fast_decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return own if members_written(body) == len(own) else None


def table_name(body: bytes) -> str:
    """The TableName of a Create Table body."""
    found: dict[str, object] = {}
    for name, value in members(body):
        if name in found:
            raise Refused("DuplicatePropertiesSpecified")
        found[name] = value
    wanted = found.get("TableName")
    if wanted is None:
        raise Refused("PropertiesNeedValue")
    if type(wanted) is not str:
        raise invalid_input("TableName must be a string.")
    return wanted


def check_options(query: Mapping[str, str]) -> None:
    """Refuse OData options that tables do not have, rather than answer as if they were not there.

    UNCONFIRMED which code the live service has for them.
    """
    for option in _unsupported_options:
        if option in query:
            raise Refused("NotImplemented")


def condition(query: Mapping[str, str]) -> Condition | None:
    text = query.get("$filter")
    return None if text is None or not text.strip() else parse_filter(text)


def top(query: Mapping[str, str]) -> int:
    text = query.get("$top")
    if text is None:
        return page_entities_max
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise invalid_input("$top must be a number from 1 to 1000.")
    if not 1 <= int(text) <= page_entities_max:
        raise invalid_input("$top must be a number from 1 to 1000.")
    return int(text)


def select(query: Mapping[str, str]) -> tuple[str, ...] | None:
    """The names that a projection keeps, in the order sent; None keeps them all."""
    text = query.get("$select")
    if text is None or not text.strip():
        return None
    names = dict.fromkeys(name.strip() for name in text.split(","))
    if "*" in names:
        return None
    if "" in names or len(names) > select_names_max:
        raise invalid_input("$select must be a list of names between commas.")
    return tuple(names)


def entities_begin(query: Mapping[str, str]) -> Position:
    """Where the continuation token in the query says to go on."""
    partition = query.get("nextpartitionkey")
    if not partition:
        return filter_plan.position_first
    row = query.get("nextrowkey")
    return filter_plan.before(
        continuation.decode(partition), continuation.decode(row) if row else ""
    )


def tables_begin(query: Mapping[str, str]) -> str:
    token = query.get("nexttablename")
    return continuation.decode(token) if token else ""
