"""Error codes of the Queue service (Azure: 'Queue service error codes')."""

from collections.abc import Mapping
from typing import Final

from etagere.frontends.common.errors import WireError

queue: Final[Mapping[str, WireError]] = {
    "InvalidMarker": WireError(400, "The specified marker is invalid."),
    "MessageNotFound": WireError(404, "The specified message does not exist."),
    "MessageTooLarge": WireError(400, "The message exceeds the maximum allowed size."),
    "PopReceiptMismatch": WireError(
        400, "The specified pop receipt did not match the pop receipt for a dequeued message."
    ),
    "QueueAlreadyExists": WireError(409, "The specified queue already exists."),
    "QueueBeingDeleted": WireError(409, "The specified queue is being deleted."),
    "QueueDisabled": WireError(409, "The specified queue has been disabled by the administrator."),
    "QueueNotEmpty": WireError(409, "The specified queue is not empty."),
    "QueueNotFound": WireError(404, "The specified queue does not exist."),
}
