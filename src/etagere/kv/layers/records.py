"""Records: msgspec types as MessagePack, behind one byte that says which version they are.

A newer program reads every older version: `upgrades` names, for each, the type that it was and the
function that makes the present one of it.  (Adding a field with a default at the end of an array
struct needs no new version.)
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar, cast

import msgspec

T = TypeVar("T")

version_max: Final = 255
_no_upgrades: Final[Mapping[int, "Upgrade"]] = MappingProxyType({})

Upgrade = tuple[type[Any], Callable[[Any], Any]]
"""What the record was, and what makes today's of it."""


class DamagedRecord(Exception):  # noqa: N818 - names what was found
    """Bytes that no version of this record has ever been encoded to."""


class Codec(Generic[T]):
    __slots__ = ("_decode", "_encode", "_old", "_prefix", "version")

    def __init__(
        self, version: int, kind: type[T], upgrades: Mapping[int, Upgrade] = _no_upgrades
    ) -> None:
        assert 0 < version <= version_max
        assert all(old < version for old in upgrades)
        self.version = version
        self._prefix = bytes((version,))
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(kind).decode
        self._old = {
            old: (msgspec.msgpack.Decoder(was).decode, upgrade)
            for old, (was, upgrade) in upgrades.items()
        }

    def encode(self, record: T) -> bytes:
        return self._prefix + self._encode(record)

    def decode(self, raw: bytes) -> T:
        try:
            if raw[:1] == self._prefix:
                return self._decode(memoryview(raw)[1:])
            decode, upgrade = self._old[raw[0]]
            return cast("T", upgrade(decode(memoryview(raw)[1:])))
        except (msgspec.MsgspecError, LookupError, ValueError) as error:
            raise DamagedRecord(str(error)) from error
