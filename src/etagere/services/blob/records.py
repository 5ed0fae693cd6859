"""What is stored of containers and blobs.  Times and ETags are ticks (`base.clock`).

Structs are stored as arrays: a field may be added at the end, with a default, and nowhere else.
"""

from enum import IntEnum
from typing import Final

import msgspec

from etagere.kernel.lease import Lease
from etagere.kv.layers.records import Codec
from etagere.services.common.access_policy import StoredPolicy


class PublicAccess(IntEnum):
    NONE = 0
    BLOB = 1
    CONTAINER = 2


class BlobType(IntEnum):
    BLOCK = 0
    APPEND = 1
    PAGE = 2


class ContainerRecord(msgspec.Struct, array_like=True):
    generation: int
    etag: int
    modified: int
    created: int
    metadata: dict[str, str] = {}
    public_access: PublicAccess = PublicAccess.NONE
    policies: tuple[StoredPolicy, ...] = ()
    lease: Lease | None = None
    default_scope: str = ""
    deny_scope_override: bool = False
    versioned_immutability: bool = False
    rows_in: str = ""
    """Of a container that was renamed: the name in whose partition its rows are."""
    renamed: int = 0
    """When it was renamed last, or 0."""


class DirectoryEntry(msgspec.Struct, array_like=True):
    generation: int
    rows_in: str = ""


class DeletedContainer(msgspec.Struct, array_like=True):
    record: ContainerRecord
    deleted: int
    retained_until: int


class Piece(msgspec.Struct, array_like=True, frozen=True):
    """A run of a blob's bytes: part of an extent, or one inline row."""

    size: int
    extent: bytes = b""
    """An extent's id; empty if the bytes are in the data row `inline`."""
    inline: int = 0
    offset: int = 0
    extent_size: int = 0
    block_id: bytes = b""


class ContentHeaders(msgspec.Struct, array_like=True, frozen=True):
    """The six properties that Set Blob Properties replaces together."""

    content_type: str = "application/octet-stream"
    encoding: str = ""
    language: str = ""
    disposition: str = ""
    cache_control: str = ""
    md5: bytes = b""


class CopyState(msgspec.Struct, array_like=True, frozen=True):
    copy_id: str
    source: str
    status: str
    done: int
    total: int
    completed: int = 0
    description: str = ""
    incremental: bool = False
    destination_snapshot: int = 0


class Immutability(msgspec.Struct, array_like=True, frozen=True):
    until: int = 0
    locked: bool = False
    legal_hold: bool = False


class Cut(msgspec.Struct, array_like=True, frozen=True):
    """Chunks of a page map that were cleared together: rows of them from before `epoch` are not
    seen any more."""

    first: int
    end: int
    epoch: int


class PageMap(msgspec.Struct, array_like=True, frozen=True):
    """A state of a page blob's content (`page_map`)."""

    id: int
    epoch: int
    cuts: tuple[Cut, ...] = ()


class PagePiece(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The bytes [start, end) of a chunk, which begin at `offset` in the data row or the extent."""

    start: int
    end: int
    offset: int
    inline: int = 0
    extent: bytes = b""
    extent_size: int = 0


class BlobRecord(msgspec.Struct, array_like=True):
    """A blob, a snapshot or an earlier version: all but the bytes."""

    kind: BlobType
    etag: int
    modified: int
    created: int
    size: int
    headers: ContentHeaders = ContentHeaders()
    metadata: dict[str, str] = {}
    pieces: tuple[Piece, ...] = ()
    """All of the content, unless `list_id` says where its pages are."""
    list_id: int = 0
    block_count: int = 0
    is_listed: bool = False
    """Whether the content was committed as a block list (Get Block List shows it)."""
    lease: Lease | None = None
    tier: str = ""
    tier_changed: int = 0
    rehydrating_to: str = ""
    rehydrate_priority: str = ""
    rehydrated_at: int = 0
    tags: dict[str, str] = {}
    copy: CopyState | None = None
    sequence: int = 0
    sealed: bool = False
    version: int = 0
    """The moment that names this version, or 0 where versioning was off."""
    scope: str = ""
    key_sha256: bytes = b""
    immutability: Immutability = Immutability()
    last_access: int = 0
    snapshot: int = 0
    """The moment that names a snapshot; 0 for a blob and for an earlier version."""
    deleted: int = 0
    """When it was soft-deleted, or 0."""
    retained_until: int = 0
    expires: int = 0
    page_map: PageMap | None = None
    """Where a page blob's bytes are: it has no pieces."""
    earlier: bool = False
    """Whether this is an earlier version."""

    def is_over(self, now: int) -> bool:
        """Whether its expiry time has passed, so that nobody may see it."""
        return 0 < self.expires <= now


class PendingCopy(msgspec.Struct, array_like=True):
    """A copy from elsewhere that goes on after the response, and after a restart."""

    copy_id: str
    url: str
    headers: dict[str, str]
    """What the source is asked with: authorization."""
    claimed: int
    """When the process that is at it last said so (`copy_claims`)."""
    keeps_metadata: bool
    """Whether the request gave metadata, so that the source's is not taken over."""
    account: str = ""
    scope: str = ""
    """The encryption scope that the content will be in, and whose it is."""
    etag: str = ""
    """The source's when it was opened, or "" where it had none that says anything."""
    sealed: bool | None = None
    """Whether an append blob is to be sealed; None: as its source is."""
    owner: str = ""
    """What it calls itself, another name for each time that a copy is taken over."""


class StagedBlock(msgspec.Struct, array_like=True):
    piece: Piece
    staged: int


class UncommittedBlob(msgspec.Struct, array_like=True):
    """That there are staged blocks, and what their ids must look like."""

    created: int
    id_length: int
    count: int
    last_staged: int
    scope: str = ""
    key_sha256: bytes = b""
    """All staged blocks of one blob are encrypted alike."""


class ScopeKey(msgspec.Struct, array_like=True):
    """What an encryption scope encrypts with."""

    key: bytes
    created: int


containers: Final = Codec(1, ContainerRecord)
directory_entries: Final = Codec(1, DirectoryEntry)
deleted_containers: Final = Codec(1, DeletedContainer)
blobs: Final = Codec(1, BlobRecord)
staged_blocks: Final = Codec(1, StagedBlock)
uncommitted_blobs: Final = Codec(1, UncommittedBlob)
scope_keys: Final = Codec(1, ScopeKey)
pending_copies: Final = Codec(1, PendingCopy)
piece_pages: Final = Codec(1, tuple[Piece, ...])
chunk_pieces: Final = Codec(1, tuple[PagePiece, ...])
map_cuts: Final = Codec(1, tuple[Cut, ...])
