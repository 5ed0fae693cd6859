"""A body that has arrived and is on its way into a transaction."""

from etagere.extents import references
from etagere.extents.spool import Received
from etagere.kv.contract import Tx
from etagere.services.blob import keys
from etagere.services.blob.content import Home
from etagere.services.blob.records import Piece

__all__ = ["Received", "keep"]


async def keep(tx: Tx, home: Home, received: Received, block_id: bytes = b"") -> tuple[Piece, ...]:
    """Give the body a holder; returns its one piece, or none if it is empty."""
    extent = received.extent
    if extent is not None:
        await references.hold(tx, home.part, [extent.id])
        return (
            Piece(size=received.size, extent=extent.id, extent_size=extent.size, block_id=block_id),
        )
    if not received.size:
        return ()
    content_id = tx.stamp()
    tx.put(
        home.part,
        keys.data(home.generation, content_id),
        received.sealed(content_id, received.data),
    )
    return (Piece(size=received.size, inline=content_id, block_id=block_id),)
