"""Creating a blob as a whole, in place of whatever has its name: what all types of blob do alike.

(Azure: 'Put Blob'.)  Content, properties, metadata and tags are replaced, staged blocks discarded;
lease, creation time and snapshots stay.  What was there is kept as a version or in the trash, or
let go of.
"""

import msgspec

from etagere.base.errors import Refused
from etagere.extents.encryption import Seal
from etagere.kernel.lease import Lease
from etagere.kv.contract import Tx
from etagere.services.blob import keys
from etagere.services.blob.blobs import drop_staged, must_be
from etagere.services.blob.content import Home
from etagere.services.blob.guard import container_of
from etagere.services.blob.history import Keeping, supersede, version_made
from etagere.services.blob.immutability import must_be_mutable, must_support, mutable
from etagere.services.blob.records import BlobRecord, BlobType, ContentHeaders, Immutability
from etagere.services.blob.tag_index import remember
from etagere.services.blob.tiers import inherit, must_be_online


class NewBlob(msgspec.Struct, frozen=True):
    """What a blob is created with, whatever its type and whichever operation creates it."""

    headers: ContentHeaders = ContentHeaders()
    metadata: dict[str, str] = msgspec.field(default_factory=dict)
    tags: dict[str, str] = msgspec.field(default_factory=dict)
    tier: str = ""
    immutability: Immutability = mutable
    seal: Seal | None = None
    """What its content is encrypted with."""
    may_overwrite: bool = True


async def make_way(
    tx: Tx,
    home: Home,
    name: str,
    old: BlobRecord | None,
    wanted: NewBlob,
    kind: BlobType,
    keeping: Keeping,
) -> None:
    """Refuse to overwrite what may not be overwritten, and put away what was there.

    A blob's type is fixed until it is deleted.
    """
    if old is not None:
        if not wanted.may_overwrite:
            raise Refused("UnauthorizedBlobOverwrite")
        must_be(old, kind)
        must_be_online(old, tx.now)
        must_be_mutable(old, tx.now)
    if wanted.immutability != mutable:
        must_support(await container_of(tx, home))
    await supersede(tx, home, name, old, keeping)
    await drop_staged(tx, home, name)


def new_record(
    tx: Tx,
    home: Home,
    name: str,
    old: BlobRecord | None,
    wanted: NewBlob,
    kind: BlobType,
    lease: Lease | None,
    keeping: Keeping,
    *,
    size: int,
) -> BlobRecord:
    """The new blob's record, its tags in the index; the caller fills in what its type has, and
    saves it."""
    stamp = tx.stamp()
    remember(tx, home, name, keys.current_moment, wanted.tags)
    made = BlobRecord(
        kind=kind,
        etag=stamp,
        version=version_made(stamp, keeping),
        modified=tx.now,
        created=tx.now if old is None else old.created,
        size=size,
        headers=wanted.headers,
        metadata=wanted.metadata,
        tags=wanted.tags,
        lease=lease,
        immutability=wanted.immutability,
        scope="" if wanted.seal is None else wanted.seal.scope,
        key_sha256=b"" if wanted.seal is None else wanted.seal.key_sha256,
    )
    inherit(made, old, wanted.tier, tx.now)
    return made
