"""Bodies with the same members as those before them: read, checked and encoded in one step.

The entities of a table mostly have the same properties of the same types.  Once a list of names
has come a few times, a type is made of it that msgspec decodes into, so that names and types cost
no Python; texts that must have a form (dates, Guids and their like) are held against one expression
for all of them.  What does not fit is nobody's error: it is read member by member, as everything is
that comes for the first time.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from typing import Annotated, Any, Final, Literal

import msgspec

from etagere.base.errors import Refused
from etagere.services.table import edm
from etagere.services.table.names import check_property_name

members_max: Final = 128
shapes_remembered: Final = 256

_encode: Final = msgspec.json.Encoder().encode

_escape: Final = re.compile(rb"\\.", re.DOTALL)
_negative_zero: Final = b":-0.0"
_keys: Final = ("PartitionKey", "RowKey")

_int32: Final[Any] = Annotated[int, msgspec.Meta(ge=edm.int32_min, le=edm.int32_max)]
_unannotated: Final[Any] = str | _int32 | float | bool  # null is not kept, and does not fit
_annotated: Final[Mapping[str, Any]] = {
    edm.string: str,
    edm.int32: _int32,
    edm.boolean: bool,
    edm.double: float,
}

_types: Final = _annotated.keys() | edm.annotated

Signature = tuple[tuple[str, str | None], ...]
"""Names in the order sent, each with its value if it is an annotation."""


def signature_of(members: Mapping[str, object]) -> Signature | None:
    """What members that need different shapes differ in; nothing for those that have none."""
    if len(members) > members_max:
        return None
    found: list[tuple[str, str | None]] = []
    for name, value in members.items():
        if "@" not in name:
            found.append((name, None))
        elif isinstance(value, str):
            found.append((name, value))
        else:
            return None
    return tuple(found)


def members_written(body: bytes) -> int:
    """How many members the objects in this JSON have, or more; -1 if that is not easily said.

    Quotes that no backslash escapes begin and end texts, and those that end names stand before
    colons, as may those that begin texts.
    """
    if b"\\" in body:
        body = _escape.sub(b"", body)
    if b"\n" in body or b"\r" in body or b"\t" in body or b'" ' in body:
        return -1  # white space may be before a colon; or a text begins with it
    return body.count(b'":')


class Sent(msgspec.Struct, frozen=True, gc=False):
    """An entity's keys, if the body has them, and its properties as they are stored."""

    partition_key: str | None
    row_key: str | None
    fragment: bytes


class SentAlike(msgspec.Struct, frozen=True, gc=False):
    """The same of several entities of one partition: their row keys, and what is stored of each."""

    partition_key: str
    row_keys: list[str]
    fragments: list[bytes]


class Shape:
    """What reads the bodies of one signature in one step, alone or several at a time.

    The type has first what is not stored (keys and redundant annotations), then the properties as
    they are stored, each behind its annotation: so what is stored is the end of its encoding.
    """

    __slots__ = (
        "_begin",
        "_decode",
        "_forms",
        "_keys",
        "_members",
        "_texts",
        "_times",
    )

    def __init__(
        self, dropped: dict[str, str], kept: dict[str, Any], formed: dict[str, str]
    ) -> None:
        """`dropped` are annotations and their values, `kept` properties and annotations with
        their types, `formed` those of them whose text must have the form of an Edm type."""
        types = {name: Literal[value] for name, value in dropped.items()} | kept
        fields = {name: f"f{number}" for number, name in enumerate((*_keys, *types))}
        self._decode = msgspec.json.Decoder(
            msgspec.defstruct(
                "Entity",
                [(fields[name], types.get(name, str)) for name in fields],
                rename={field: name for name, field in fields.items()},
                forbid_unknown_fields=True,
                gc=False,
            )
        ).decode
        self._members = len(fields)
        self._keys = attrgetter(*(fields[name] for name in _keys))
        without_keys = _encode(dict.fromkeys(_keys, "") | dropped)
        self._begin = len(without_keys) - 2 * len(_keys) * len('"')
        forms = "\n".join(edm.forms[kind] for kind in formed.values())
        self._forms = re.compile(f"(?:{forms}\n)*")
        self._texts = _getter([fields[name] for name in formed])
        self._times = [fields[name] for name, kind in formed.items() if kind == edm.datetime]

    def read(self, body: bytes) -> Sent | None:
        """The entity, or nothing if its members have to be looked at one by one."""
        try:
            found = self._decode(body)
        except (msgspec.MsgspecError, ValueError):
            return None
        if not self._settle(self._texts(found), (found,)):
            return None
        try:
            encoded = _encode(found)
        except UnicodeEncodeError:
            return None
        if encoded != body and not self._has_each_once(body, encoded):
            return None
        if _negative_zero in encoded:
            return None
        partition_key, row_key = self._keys(found)
        begin = self._begin + len(_encode(partition_key)) + len(_encode(row_key))
        return Sent(partition_key, row_key, encoded[begin:-1])

    def read_alike(self, bodies: list[bytes]) -> SentAlike | None:
        """The entities that `read` finds one by one, if it finds all, and all in one partition."""
        try:
            # `decode_lines` is no faster, and does not insist on the lines.
            found = [self._decode(body) for body in bodies]
        except (msgspec.MsgspecError, ValueError):
            return None
        if not self._settle(list(chain.from_iterable(map(self._texts, found))), found):
            return None
        try:
            encoded = [_encode(entity) for entity in found]
        except UnicodeEncodeError:
            return None
        # Each body has every member at least once, so none has one twice if all together have not.
        if encoded != bodies and members_written(b"".join(bodies)) != self._members * len(bodies):
            return None
        if _negative_zero in b"".join(encoded):
            return None
        partition_keys, row_keys = zip(*map(self._keys, found), strict=True)
        partition_key = partition_keys[0]
        if partition_keys.count(partition_key) != len(found):
            return None
        begin = self._begin + len(_encode(partition_key))
        fragments = [
            line[begin + size : -1]
            for line, size in zip(encoded, map(len, map(_encode, row_keys)), strict=True)
        ]
        return SentAlike(partition_key, list(row_keys), fragments)

    def _settle(self, texts: Sequence[str], found: Iterable[object]) -> bool:
        """Whether the texts that must have a form, in all that was found, have it.

        Moments are settled.
        """
        if not texts:
            return True
        joined = "\n".join(texts) + "\n"
        if joined.count("\n") != len(texts) or not self._forms.fullmatch(joined):
            return False
        if "0Z" in joined:
            for field in self._times:
                for entity in found:
                    moment = getattr(entity, field)
                    if moment.endswith("0Z"):
                        setattr(entity, field, edm.settle_datetime(moment))
        return True

    def _has_each_once(self, body: bytes, encoded: bytes) -> bool:
        """Whether a body has no member twice, of which only the last value would be known.

        Every name brings two quotes with it, and what is encoded has each name once.
        """
        if b"\\" in body:
            return members_written(body) == self._members
        return body.count(b'"') == encoded.count(b'"')


def _getter(fields: list[str]) -> Callable[[object], tuple[str, ...]]:
    """What gets the values of any number of fields; of one, `attrgetter` makes no tuple."""
    if len(fields) > 1:
        return attrgetter(*fields)
    if fields:
        get = attrgetter(fields[0])
        return lambda found: (get(found),)
    return lambda _: ()


@lru_cache(maxsize=shapes_remembered)
def shape_of(signature: Signature) -> Shape | None:
    """Nothing for members that want to be read one by one, such as those to be refused."""
    sent = dict(signature)
    if not all(name in sent for name in _keys):
        return None
    dropped: dict[str, str] = {}
    kept: dict[str, Any] = {}
    formed: dict[str, str] = {}
    for name, value in signature:
        owner, at, annotation = name.partition("@")
        if at:
            if annotation != "odata.type" or owner not in sent or value not in _types:
                return None
            assert value is not None
            if value not in edm.annotated:
                dropped[name] = value
            if owner in _keys and value != edm.string:
                return None
        elif name not in _keys:
            edm_type = sent.get(name + edm.annotation_suffix)
            if edm_type is None:
                kept[name] = _unannotated
            elif edm_type in edm.annotated:
                kept[name + edm.annotation_suffix] = Literal[edm_type]
                kept[name] = str
                formed[name] = edm_type
            else:
                kept[name] = _annotated.get(edm_type)
            if name.startswith("odata.") or name == "Timestamp" or not _is_property(name):
                return None
    return Shape(dropped, kept, formed)


def _is_property(name: str) -> bool:
    try:
        check_property_name(name)
    except Refused:
        return False
    return True
