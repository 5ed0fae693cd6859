"""Records: msgspec types as MessagePack, behind one byte that says which version they are.

A newer program reads every older version: `upgrades` names, for each, the type that it was and the
function that makes the present one of it.  (Adding a field with a default at the end of an array
struct needs no new version.)
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar, cast

import msgspec

from etagere.kv.contract import DamagedRecord

__all__ = ["Codec", "DamagedRecord", "Upgrade"]

T = TypeVar("T")

version_max: Final = 255
_no_upgrades: Final[Mapping[int, "Upgrade"]] = MappingProxyType({})

Upgrade = tuple[type[Any], Callable[[Any], Any]]
"""What the record was, and what makes today's of it."""


class Codec(Generic[T]):
    __slots__ = ("_decode", "_encode", "_name", "_old", "_prefix", "version")

    def __init__(
        self, version: int, kind: type[T], upgrades: Mapping[int, Upgrade] = _no_upgrades
    ) -> None:
        assert 0 < version <= version_max
        assert all(old < version for old in upgrades)
        self.version = version
        self._name = getattr(kind, "__name__", str(kind))
        self._prefix = bytes((version,))
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(kind).decode
        self._old = {
            old: (msgspec.msgpack.Decoder(was).decode, upgrade)
            for old, (was, upgrade) in upgrades.items()
        }

    def encode(self, record: T) -> bytes:
        return self._prefix + self._encode(record)

    def encode_each(self, each: Iterable[T]) -> list[bytes]:
        prefix, encode = self._prefix, self._encode
        return [prefix + encode(record) for record in each]

    def decode(self, raw: bytes) -> T:
        """DamagedRecord for bytes that no version of this record was ever encoded to."""
        try:
            if raw[0] == self.version:
                return self._decode(raw[1:])
            return self._decode_old(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, IndexError) as error:
            raise DamagedRecord(self._name, str(error)) from error

    def _decode_old(self, raw: bytes) -> T:
        try:
            decode, upgrade = self._old[raw[0]]
        except KeyError:
            raise DamagedRecord(self._name, "unknown version", raw[0]) from None
        return cast("T", upgrade(decode(raw[1:])))
