"""Where references to extents lie in the store; only this module builds these keys.

    (any partition that holds extents)
      "extent", held    id             -> how often, or since when no more (`Held`)
      "extent", due     moment, id     -> nothing: to be let go of once the moment has passed
    ("extents", shard)
      edges             id, partition  -> nothing: that partition has a `held` row for it
      given up          id             -> until when this row stays

The rows in a holder's partition begin with a text that no service's own keys begin with.
"""

from typing import Final

from etagere.base.clock import Timestamp
from etagere.extents.contract import ExtentId
from etagere.kv.contract import Partition
from etagere.kv.tuples import pack, range_of, unpack

shards: Final = 64
"""Part of the data on disk: another number would look for edges where they are not."""

_mark: Final = "extent"
_held: Final = 1
_due: Final = 2

_edges: Final = 1
_given_up: Final = 2

Range = tuple[bytes, bytes]

_shard_partitions: Final = tuple(Partition(pack("extents", shard)) for shard in range(shards))


def shard_of(extent_id: ExtentId) -> Partition:
    """The partition that knows all the holders of this extent."""
    return _shard_partitions[extent_id[0] % shards]


def all_shards() -> tuple[Partition, ...]:
    return _shard_partitions


def held(extent_id: ExtentId) -> bytes:
    return pack(_mark, _held, extent_id)


def all_held() -> Range:
    return range_of(_mark, _held)


def due(moment: Timestamp, extent_id: ExtentId) -> bytes:
    return pack(_mark, _due, moment, extent_id)


def all_due() -> Range:
    return range_of(_mark, _due)


def due_until(moment: Timestamp) -> Range:
    """What is due at this moment, and before."""
    begin, _ = all_due()
    _, end = range_of(_mark, _due, moment)
    return begin, end


def edge(extent_id: ExtentId, part: Partition) -> bytes:
    return pack(_edges, extent_id, part)


def edges_of(extent_id: ExtentId) -> Range:
    return range_of(_edges, extent_id)


def all_edges() -> Range:
    return range_of(_edges)


def given_up(extent_id: ExtentId) -> bytes:
    return pack(_given_up, extent_id)


def all_given_up() -> Range:
    return range_of(_given_up)


def held_extent(key: bytes) -> ExtentId:
    return _extent_id(unpack(key)[2])


def due_extent(key: bytes) -> tuple[Timestamp, ExtentId]:
    _, _, moment, extent_id = unpack(key)
    assert isinstance(moment, int)
    return Timestamp(moment), _extent_id(extent_id)


def edge_ends(key: bytes) -> tuple[ExtentId, Partition]:
    _, extent_id, part = unpack(key)
    assert isinstance(part, bytes)
    return _extent_id(extent_id), Partition(part)


def given_up_extent(key: bytes) -> ExtentId:
    return _extent_id(unpack(key)[1])


def _extent_id(item: object) -> ExtentId:
    assert isinstance(item, bytes)
    return ExtentId(item)
