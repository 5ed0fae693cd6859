"""How much metadata a response carries, and what media types a request may have.

Azure: 'Setting the OData data service version headers', 'Payload format for Table service
operations'.
"""

from enum import Enum
from functools import lru_cache
from typing import Final

from etagere.base.errors import Refused

json_type: Final = "application/json"
_atom_types: Final = frozenset({"application/atom+xml", "application/atomsvc+xml"})
_any_types: Final = frozenset({"*/*", "application/*"})
json_default_since: Final = "2015-12-11"
"""Before this version, a request that does not say what it accepts gets Atom."""


class Metadata(Enum):
    NONE = "nometadata"
    MINIMAL = "minimalmetadata"
    FULL = "fullmetadata"


_levels: Final = {level.value: level for level in Metadata}

content_types: Final = {
    level: f"{json_type};odata={level.value};streaming=true;charset=utf-8" for level in Metadata
}


# Clients say the same thing with every request.
@lru_cache(maxsize=256)
def choose(accept: str | None, version: str) -> Metadata:
    """The level that an Accept header, or a `$format`, asks for."""
    if accept is None or not accept.strip():
        if version < json_default_since:
            # UNCONFIRMED code: Atom is what would be due, and nobody speaks it any more.
            raise Refused("AtomFormatNotSupported")
        return Metadata.MINIMAL
    refusal = "MediaTypeNotSupported"
    for media_range in accept.split(","):
        media, *parameters = (part.strip().lower() for part in media_range.split(";"))
        if media == json_type:
            level = _level(parameters)
            if level is not None:
                return level
            refusal = "JsonFormatNotSupported"
        elif media in _any_types:
            return Metadata.MINIMAL
        elif media in _atom_types:
            refusal = "AtomFormatNotSupported"
    raise Refused(refusal)


def choose_leniently(accept: str | None) -> Metadata:
    """The level for an error, or for a response that has no body whatever is accepted."""
    try:
        return choose(accept, json_default_since)
    except Refused:
        return Metadata.MINIMAL


def _level(parameters: list[str]) -> Metadata | None:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "odata":
            return _levels.get(value.strip(' "'))
    return Metadata.MINIMAL


@lru_cache(maxsize=256)
def check_json(content_type: str | None) -> None:
    """Refuse a body that is not JSON by its Content-Type."""
    media = (content_type or "").partition(";")[0].strip().lower()
    if media == json_type:
        return
    raise Refused("AtomFormatNotSupported" if media in _atom_types else "MediaTypeNotSupported")
