"""Where everything of a blob account lies in the store; only this module builds its keys.

An account's partition holds the directory of its containers.  A container's partition holds the
container's record and, under its *generation* (the stamp of its creation), all that is in it:
deleting a container forgets the generation, and its rows are swept away later, in small steps,
while a new container of the same name already fills its own.

Renaming a container moves its record to the partition of the new name and leaves its rows where
they are; from then on the record says under which name they lie.

    (account)
      names        name                          -> DirectoryEntry
      deleted      name, generation              -> DeletedContainer (soft delete)
      doomed       generation, name              -> nothing: rows and extents to sweep away
      scopes       name                          -> ScopeKey: of an encryption scope; of "", what
                                                    customers' keys are mixed with
    (container)
      container                                  -> ContainerRecord
      blob         gen, name                     -> BlobRecord: the current blob
      snapshots    gen, name, moment             -> BlobRecord
      versions     gen, name, moment             -> BlobRecord: earlier versions
      trash        gen, name, moment             -> BlobRecord: soft-deleted, whatever it was
      staged       gen, name, block id           -> StagedBlock
      unfinished   gen, name                     -> UncommittedBlob: there are staged blocks
      data         gen, content id               -> bytes of one inline piece
      pieces       gen, list id, offset          -> a page of a piece list
      holders      gen, id                       -> how many hold an inline piece or a list, if > 1
      garbage      gen, moment, list id          -> nothing: a piece list without holders, to be
                                                    taken apart from that moment on
      tags         gen, key, value, name, moment -> nothing: the index that Find Blobs by Tags reads
      expiries     gen, until, name, moment      -> nothing: when a row in the trash may go
      pending      gen, name                     -> PendingCopy: to go on with after a restart
      chunks       gen, map, number, epoch       -> pieces of a page blob's chunk (`page_map`)
      changes      gen, map, epoch, number       -> nothing: which chunks an epoch has rows of
      clears       gen, map, epoch, start, end   -> nothing: bytes that were cleared in an epoch
                                                    (`page_clears`)
      epochs       gen, map, epoch               -> cuts: the states of a map, held or to be removed
      unheld       gen, moment, map, epoch       -> nothing: a state without holders, to be removed
                                                    from that moment on
      pins         gen, until, map, epoch, id    -> nothing: a state that a download holds
      lifetimes    gen, until, name              -> nothing: a blob that has an expiry time
      renamed      gen                           -> name: these rows are of a container that bears
                                                    another name than the partition
"""

from enum import IntEnum, unique
from functools import lru_cache
from typing import Final, NamedTuple

from etagere.base.clock import Timestamp
from etagere.kv.contract import Partition
from etagere.kv.tuples import (
    pack,
    pack_number,
    pack_text,
    range_of,
    range_of_prefix,
    unpack,
)

_service: Final = "blob"

_names: Final = 1
_deleted: Final = 2
_doomed: Final = 3
_scopes: Final = 4


@unique
class RowKind(IntEnum):
    """The first item of every key in a container's partition."""

    CONTAINER = 1
    BLOB = 2
    SNAPSHOT = 3
    VERSION = 4
    TRASH = 5
    STAGED = 6
    UNFINISHED = 7
    DATA = 8
    PIECES = 9
    HOLDERS = 10
    GARBAGE = 11
    TAG = 12
    EXPIRY = 13
    PENDING = 14
    CHUNK = 15
    CHANGE = 16
    EPOCH = 17
    UNHELD = 18
    PIN = 19
    RENAMED = 20
    LIFETIME = 21
    CLEAR = 22


_container: Final = int(RowKind.CONTAINER)
_blob: Final = int(RowKind.BLOB)
_snapshots: Final = int(RowKind.SNAPSHOT)
_versions: Final = int(RowKind.VERSION)
_trash: Final = int(RowKind.TRASH)
_staged: Final = int(RowKind.STAGED)
_unfinished: Final = int(RowKind.UNFINISHED)
_data: Final = int(RowKind.DATA)
_pieces: Final = int(RowKind.PIECES)
_holders: Final = int(RowKind.HOLDERS)
_garbage: Final = int(RowKind.GARBAGE)
_tags: Final = int(RowKind.TAG)
_expiries: Final = int(RowKind.EXPIRY)
_pending: Final = int(RowKind.PENDING)
_chunks: Final = int(RowKind.CHUNK)
_changes: Final = int(RowKind.CHANGE)
_epochs: Final = int(RowKind.EPOCH)
_unheld: Final = int(RowKind.UNHELD)
_pins: Final = int(RowKind.PIN)
_renamed: Final = int(RowKind.RENAMED)
_lifetimes: Final = int(RowKind.LIFETIME)
_clears: Final = int(RowKind.CLEAR)

current_moment: Final = 2**63
"""Stands for the current blob among the moments of its versions, after all of them."""

Range = tuple[bytes, bytes]

container_record: Final = pack(_container)


@lru_cache(maxsize=256)
def account_partition(account: str) -> Partition:
    return Partition(pack(_service, account))


@lru_cache(maxsize=4096)
def container_partition(account: str, container: str) -> Partition:
    return Partition(pack(_service, account, container))


def sibling(part: Partition, container: str) -> Partition:
    """The partition of another container of the same account."""
    account = unpack(part)[1]
    assert isinstance(account, str)
    return container_partition(account, container)


def directory_entry(name: str) -> bytes:
    return pack(_names, name)


def directory(prefix: str = "") -> Range:
    return range_of_prefix(_names, prefix)


def deleted_container(name: str, generation: int) -> bytes:
    return pack(_deleted, name, generation)


def deleted_containers() -> Range:
    return range_of(_deleted)


def doomed(generation: int, name: str) -> bytes:
    return pack(_doomed, generation, name)


def scope_key(scope: str) -> bytes:
    return pack(_scopes, scope)


def scope_keys() -> Range:
    return range_of(_scopes)


def scope_name(key: bytes) -> str:
    name = unpack(key)[1]
    assert isinstance(name, str)
    return name


def all_doomed() -> Range:
    return range_of(_doomed)


@lru_cache(maxsize=4096)
def _of(kind: int, generation: int) -> bytes:
    """What the keys of one kind of row begin with: the same for one operation after another."""
    return pack(kind, generation)


def blob(generation: int, name: str) -> bytes:
    return _of(_blob, generation) + pack_text(name)


def blobs(generation: int) -> Range:
    return range_of(_blob, generation)


def blobs_named(generation: int, prefix: str) -> Range:
    return range_of_prefix(_blob, generation, prefix)


def snapshot(generation: int, name: str, moment: int) -> bytes:
    return pack(_snapshots, generation, name, moment)


def snapshots_of(generation: int, name: str) -> Range:
    return range_of(_snapshots, generation, name)


def snapshots_named(generation: int, prefix: str) -> Range:
    return range_of_prefix(_snapshots, generation, prefix)


def version(generation: int, name: str, moment: int) -> bytes:
    return pack(_versions, generation, name, moment)


def versions_of(generation: int, name: str) -> Range:
    return range_of(_versions, generation, name)


def versions_named(generation: int, prefix: str) -> Range:
    return range_of_prefix(_versions, generation, prefix)


def trash(generation: int, name: str, moment: int) -> bytes:
    return pack(_trash, generation, name, moment)


def trash_of(generation: int, name: str) -> Range:
    return range_of(_trash, generation, name)


def trash_named(generation: int, prefix: str) -> Range:
    return range_of_prefix(_trash, generation, prefix)


def staged(generation: int, name: str, block_id: bytes) -> bytes:
    return pack(_staged, generation, name, block_id)


def staged_of(generation: int, name: str) -> Range:
    return range_of(_staged, generation, name)


def unfinished(generation: int, name: str) -> bytes:
    return _of(_unfinished, generation) + pack_text(name)


def unfinished_named(generation: int, prefix: str) -> Range:
    return range_of_prefix(_unfinished, generation, prefix)


def data(generation: int, content_id: int) -> bytes:
    return _of(_data, generation) + pack_number(content_id)


def piece_page(generation: int, list_id: int, offset: int) -> bytes:
    return _of(_pieces, generation) + pack_number(list_id) + pack_number(offset)


def piece_pages(generation: int, list_id: int) -> Range:
    return range_of(_pieces, generation, list_id)


def holders(generation: int, held_id: int) -> bytes:
    return _of(_holders, generation) + pack_number(held_id)


def garbage(generation: int, moment: int, list_id: int) -> bytes:
    return pack(_garbage, generation, moment, list_id)


def garbage_list(key: bytes) -> tuple[int, Timestamp]:
    """The list, and from when on it may be taken apart."""
    _, _, moment, list_id = unpack(key)
    assert isinstance(moment, int)
    assert isinstance(list_id, int)
    return list_id, Timestamp(moment)


def all_garbage(generation: int) -> Range:
    return range_of(_garbage, generation)


def tag(generation: int, key: str, value: str, name: str, moment: int) -> bytes:
    return pack(_tags, generation, key, value, name, moment)


class Lane(NamedTuple):
    """All rows of one kind in one generation."""

    kind: RowKind
    bounds: Range


def everything(generation: int) -> tuple[Lane, ...]:
    """All that one generation of a container occupies."""
    kinds = (kind for kind in RowKind if kind is not RowKind.CONTAINER)
    return tuple(Lane(kind, range_of(int(kind), generation)) for kind in kinds)


def name_of(key: bytes) -> str:
    """The blob's name in a key of a row that has one."""
    name = unpack(key)[2]
    assert isinstance(name, str)
    return name


def doomed_container(key: bytes) -> tuple[int, str]:
    _, generation, name = unpack(key)
    assert isinstance(generation, int)
    assert isinstance(name, str)
    return generation, name


def piece_page_offset(key: bytes) -> int:
    offset = unpack(key)[-1]
    assert isinstance(offset, int)
    return offset


def kept_container(key: bytes) -> tuple[str, int]:
    _, name, generation = unpack(key)
    assert isinstance(name, str)
    assert isinstance(generation, int)
    return name, generation


def kind_range(kind: RowKind) -> Range:
    return range_of(int(kind))


def directory_name(key: bytes) -> str:
    name = unpack(key)[1]
    assert isinstance(name, str)
    return name


def held_id(key: bytes) -> int:
    """The content or list id in a key of a data, pieces or holders row."""
    found = unpack(key)[2]
    assert isinstance(found, int)
    return found


def tags_of_key(generation: int, key: str) -> Range:
    return range_of(_tags, generation, key)


def tags_of_value(generation: int, key: str, value: str) -> Range:
    return range_of(_tags, generation, key, value)


def tagged(key: bytes) -> tuple[str, int]:
    """The blob, and the version of it, that a row of the tag index names."""
    *_, name, moment = unpack(key)
    assert isinstance(name, str)
    assert isinstance(moment, int)
    return name, moment


def moment_of(key: bytes) -> int:
    """The moment at the end of a snapshot's, version's or trash row's key."""
    moment = unpack(key)[-1]
    assert isinstance(moment, int)
    return moment


def expiry(generation: int, until: int, name: str, moment: int) -> bytes:
    return pack(_expiries, generation, until, name, moment)


def all_expiries(generation: int) -> Range:
    return range_of(_expiries, generation)


class Expiry(NamedTuple):
    until: Timestamp
    name: str
    moment: int


def read_expiry(key: bytes) -> Expiry:
    _, _, until, name, moment = unpack(key)
    assert isinstance(until, int)
    assert isinstance(name, str)
    assert isinstance(moment, int)
    return Expiry(Timestamp(until), name, moment)


def pending(generation: int, name: str) -> bytes:
    return pack(_pending, generation, name)


def all_pending(generation: int) -> Range:
    return range_of(_pending, generation)


def renamed(generation: int) -> bytes:
    return pack(_renamed, generation)


def lifetime(generation: int, until: int, name: str) -> bytes:
    return pack(_lifetimes, generation, until, name)


def all_lifetimes(generation: int) -> Range:
    return range_of(_lifetimes, generation)


def read_lifetime(key: bytes) -> tuple[Timestamp, str]:
    _, _, until, name = unpack(key)
    assert isinstance(until, int)
    assert isinstance(name, str)
    return Timestamp(until), name


# ---- page maps


@lru_cache(maxsize=1024)
def _chunks_of(generation: int, map_id: int) -> bytes:
    return pack(_chunks, generation, map_id)


@lru_cache(maxsize=1024)
def _changes_of(generation: int, map_id: int) -> bytes:
    return pack(_changes, generation, map_id)


def chunk(generation: int, map_id: int, number: int, epoch: int) -> bytes:
    return _chunks_of(generation, map_id) + pack_number(number) + pack_number(epoch)


def chunk_until(generation: int, map_id: int, number: int, epoch: int) -> Range:
    """A chunk's rows up to an epoch, that included."""
    begin = _chunks_of(generation, map_id) + pack(number)
    return begin, begin + pack(epoch) + b"\0"


def chunks(generation: int, map_id: int, first: int, end: int) -> Range:
    """All rows of the chunks [first, end)."""
    begin = _chunks_of(generation, map_id)
    return begin + pack(first), begin + pack(end)


class ChunkId(NamedTuple):
    """What the key of a chunk's row says."""

    map_id: int
    number: int
    epoch: int


def read_chunk(key: bytes) -> ChunkId:
    _, _, map_id, number, epoch = unpack(key)
    assert isinstance(map_id, int)
    assert isinstance(number, int)
    assert isinstance(epoch, int)
    return ChunkId(map_id, number, epoch)


def change(generation: int, map_id: int, epoch: int, number: int) -> bytes:
    return _changes_of(generation, map_id) + pack_number(epoch) + pack_number(number)


def changes_between(generation: int, map_id: int, after_epoch: int, until_epoch: int) -> Range:
    """The changes of the epochs above one, up to another, that included."""
    begin = _changes_of(generation, map_id)
    return begin + pack(after_epoch) + b"\xff", begin + pack(until_epoch) + b"\xff"


def read_change(key: bytes) -> ChunkId:
    _, _, map_id, epoch, number = unpack(key)
    assert isinstance(map_id, int)
    assert isinstance(number, int)
    assert isinstance(epoch, int)
    return ChunkId(map_id, number, epoch)


@lru_cache(maxsize=1024)
def _clears_of(generation: int, map_id: int) -> bytes:
    return pack(_clears, generation, map_id)


class ClearId(NamedTuple):
    """What a clear's key says: the bytes [start, end), and the epoch."""

    map_id: int
    epoch: int
    start: int
    end: int


def clear(generation: int, found: ClearId) -> bytes:
    begin = _clears_of(generation, found.map_id) + pack_number(found.epoch)
    return begin + pack_number(found.start) + pack_number(found.end)


def clears_between(generation: int, map_id: int, after_epoch: int, until_epoch: int) -> Range:
    """The clears of the epochs above one, up to another, that included."""
    begin = _clears_of(generation, map_id)
    return begin + pack(after_epoch) + b"\xff", begin + pack(until_epoch) + b"\xff"


def clears_until(generation: int, map_id: int, epoch: int, start: int) -> Range:
    """An epoch's clears that begin at `start` or before it."""
    begin = _clears_of(generation, map_id) + pack(epoch)
    return begin, begin + pack(start) + b"\xff"


def clears_from(generation: int, map_id: int, epoch: int, start: int, until: int) -> Range:
    """An epoch's clears that begin after `start`, up to `until`, that included."""
    begin = _clears_of(generation, map_id) + pack(epoch)
    return begin + pack(start) + b"\xff", begin + pack(until) + b"\xff"


def read_clear(key: bytes) -> ClearId:
    _, _, map_id, epoch, start, end = unpack(key)
    assert isinstance(map_id, int)
    assert isinstance(epoch, int)
    assert isinstance(start, int)
    assert isinstance(end, int)
    return ClearId(map_id, epoch, start, end)


class EpochId(NamedTuple):
    """A state of a page map."""

    map_id: int
    epoch: int


def epoch(generation: int, map_id: int, number: int) -> bytes:
    return pack(_epochs, generation, map_id, number)


def epochs_of(generation: int, map_id: int) -> Range:
    return range_of(_epochs, generation, map_id)


def read_epoch(key: bytes) -> EpochId:
    _, _, map_id, number = unpack(key)
    assert isinstance(map_id, int)
    assert isinstance(number, int)
    return EpochId(map_id, number)


def unheld_epoch(generation: int, moment: int, map_id: int, number: int) -> bytes:
    return pack(_unheld, generation, moment, map_id, number)


def all_unheld(generation: int) -> Range:
    return range_of(_unheld, generation)


def read_unheld(key: bytes) -> tuple[Timestamp, EpochId]:
    _, _, moment, map_id, number = unpack(key)
    assert isinstance(moment, int)
    assert isinstance(map_id, int)
    assert isinstance(number, int)
    return Timestamp(moment), EpochId(map_id, number)


def pin(generation: int, until: int, map_id: int, number: int, pin_id: int) -> bytes:
    return pack(_pins, generation, until, map_id, number, pin_id)


def all_pins(generation: int) -> Range:
    return range_of(_pins, generation)


def read_pin(key: bytes) -> tuple[Timestamp, EpochId]:
    _, _, until, map_id, number, _ = unpack(key)
    assert isinstance(until, int)
    assert isinstance(map_id, int)
    assert isinstance(number, int)
    return Timestamp(until), EpochId(map_id, number)
