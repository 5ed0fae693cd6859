"""Set Blob Metadata and Set Blob Properties: the record changes, the content stays."""

import msgspec

from etagere.extents.encryption import Seal
from etagere.kernel.conditions import WriteKind
from etagere.kernel.lease import Lease
from etagere.kv.contract import Tx
from etagere.services.blob.blobs import Standing, Where, must_exist, save, stand
from etagere.services.blob.encryption import must_match
from etagere.services.blob.guard import Guard, admit_write
from etagere.services.blob.history import (
    Keeping,
    keep_before_change,
    makes_version,
    version_made,
)
from etagere.services.blob.immutability import must_be_mutable
from etagere.services.blob.records import BlobRecord, ContentHeaders
from etagere.services.blob.tiers import must_be_online


async def set_metadata(
    tx: Tx,
    where: Where,
    guard: Guard,
    metadata: dict[str, str],
    keeping: Keeping,
    seal: Seal | None,
) -> BlobRecord:
    standing = await stand(tx, where)
    lease = admit_write(standing.record, guard, tx.now, WriteKind.UPDATE)
    must_match(must_exist(standing.record), seal)
    return await change(tx, standing, where.name, lease, keeping, metadata=metadata)


async def set_headers(
    tx: Tx, where: Where, guard: Guard, headers: ContentHeaders | None, keeping: Keeping
) -> BlobRecord:
    """The six content headers are replaced together, or (None) stay as they are."""
    standing = await stand(tx, where)
    lease = admit_write(standing.record, guard, tx.now, WriteKind.SET_PROPERTIES)
    record = must_exist(standing.record)
    versions = keeping if makes_version(record.kind) else None
    kept = record.headers if headers is None else headers
    return await change(tx, standing, where.name, lease, versions, headers=kept)


async def change(
    tx: Tx,
    standing: Standing,
    name: str,
    lease: Lease | None,
    keeping: Keeping | None,
    **fields: object,
) -> BlobRecord:
    """Change the current blob's record, with a new ETag and, where versions are kept, as a new
    version; without `keeping`, the version that is there changes."""
    home, record = standing.home, must_exist(standing.record)
    must_be_online(record, tx.now)
    must_be_mutable(record, tx.now)
    stamp = tx.stamp()
    if keeping is not None:
        await keep_before_change(tx, home, name, record, keeping)
        fields["version"] = version_made(stamp, keeping)
    copied = record.copy if record.copy is not None and record.copy.incremental else None
    changed = msgspec.structs.replace(
        record, etag=stamp, modified=tx.now, lease=lease, copy=copied, **fields
    )
    save(tx, home, name, changed)
    return changed
