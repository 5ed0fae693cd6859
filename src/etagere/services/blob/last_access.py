"""When a blob's content was last read (Azure: 'Optimize costs by automatically managing the data
lifecycle', last access time tracking).

Where an account asks for it, the first read of a day is noted with the blob, and nothing else of it
changes.  Smart blobs need to know it in any account: they cool down while nobody reads them.
"""

from typing import Final

import msgspec

from etagere.base.clock import Timestamp, seconds
from etagere.kv.contract import Tx
from etagere.services.blob import tiers
from etagere.services.blob.blobs import Where, find, save_found
from etagere.services.blob.records import BlobRecord

noted_again_after: Final = seconds(86_400)


def of(record: BlobRecord) -> Timestamp:
    """A write is an access as well."""
    return Timestamp(max(record.last_access, record.modified))


def is_worth_noting(record: BlobRecord, now: Timestamp, *, tracked: bool) -> bool:
    wanted = tracked or record.tier == tiers.smart
    return wanted and now >= of(record) + noted_again_after


async def note(tx: Tx, where: Where, etag: int) -> None:
    """A read of the blob as it was with this ETag; of what has changed since, its change tells."""
    standing = await find(tx, where)
    record = standing.record
    if record is not None and record.etag == etag:
        read = msgspec.structs.replace(record, last_access=tx.now)
        await save_found(tx, standing.home, where, read)
