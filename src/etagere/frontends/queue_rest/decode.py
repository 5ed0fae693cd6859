"""Queue requests as request values: query and XML, checked before anything is looked up."""

from typing import Final

from etagere.base.errors import Refused, invalid_query, missing_query, query_out_of_range
from etagere.frontends.common import xml
from etagere.frontends.common.headers import max_results, query_integer
from etagere.frontends.common.message import Request
from etagere.frontends.common.paging import decode_marker
from etagere.frontends.queue_rest import message_xml
from etagere.services.queue.messages import GetMessages, PutMessage, UpdateMessage
from etagere.services.queue.queues import ListQueues
from etagere.services.queue.receipts import parse_pop_receipt

messages_max: Final = 32
queues_max: Final = 5000
visibility_seconds_max: Final = 604_800
visibility_seconds_max_before_2011: Final = 7200
visibility_seconds_default: Final = 30
ttl_seconds_default: Final = 604_800
ttl_seconds_max_before_2017: Final = 604_800
ttl_seconds_never: Final = -1

long_visibility_since: Final = "2011-08-18"
any_ttl_since: Final = "2017-07-29"

text_bytes_max: Final = 64 * 1024
text_bytes_max_before_2011: Final = 8 * 1024
body_bytes_max: Final = 8 * text_bytes_max
"""A text in which every character is escaped (`&quot;`), and the elements around it."""


def message_count(request: Request) -> int:
    return _within(request, "numofmessages", 1, messages_max, 1)


def get_messages(request: Request, version: str) -> GetMessages:
    longest = (
        visibility_seconds_max
        if version >= long_visibility_since
        else visibility_seconds_max_before_2011
    )
    return GetMessages(
        message_count(request),
        _within(request, "visibilitytimeout", 1, longest, visibility_seconds_default),
    )


async def put_message(request: Request, version: str, tail: int) -> PutMessage:
    ttl = _ttl(request, version)
    visibility = _within(request, "visibilitytimeout", 0, visibility_seconds_max, 0)
    if ttl is not None and visibility >= ttl:
        raise invalid_query(
            "visibilitytimeout", str(visibility), "It must be shorter than the message's life."
        )
    text = await _message_text(request, version)
    if text is None:
        raise xml.invalid_document("The body must be a QueueMessage.")
    return PutMessage(text, tail, visibility, ttl)


async def update_message(request: Request, version: str, message_id: str) -> UpdateMessage:
    """Without a body only the visibility changes; a body without text sets an empty text."""
    receipt = pop_receipt(request)
    if "visibilitytimeout" not in request.query:
        raise missing_query("visibilitytimeout")
    visibility = _within(request, "visibilitytimeout", 0, visibility_seconds_max, 0)
    text = await _message_text(request, version)
    return UpdateMessage(message_id, receipt, visibility, text)


def pop_receipt(request: Request) -> int:
    value = request.query.get("popreceipt")
    if not value:
        raise missing_query("popreceipt")
    stamp = parse_pop_receipt(value)
    if stamp is None:
        raise invalid_query("popreceipt", value, "Invalid pop receipt format.")
    return stamp


def list_queues(request: Request) -> ListQueues:
    query = request.query
    limit = max_results(request)
    include = query.get("include", "")
    if include and any(part.strip().lower() != "metadata" for part in include.split(",")):
        raise invalid_query("include", include)
    return ListQueues(
        limit=queues_max if limit is None else limit,
        prefix=query.get("prefix", ""),
        marker=_marker(query.get("marker", "")),
        with_metadata=bool(include),
    )


def _marker(marker: str) -> str:
    match decode_marker(marker):
        case (str(name),):
            return name
        case _:
            raise invalid_query("marker", marker)


def _ttl(request: Request, version: str) -> int | None:
    """The seconds that a message is to live; None for ever."""
    if version < any_ttl_since:
        return _within(request, "messagettl", 1, ttl_seconds_max_before_2017, ttl_seconds_default)
    seconds = query_integer(request, "messagettl")
    if seconds is None:
        return ttl_seconds_default
    if seconds == ttl_seconds_never:
        return None
    if seconds < 1:
        raise invalid_query("messagettl", str(seconds), "It must be positive, or -1 for never.")
    return seconds


def _within(request: Request, name: str, low: int, high: int, default: int) -> int:
    number = query_integer(request, name)
    if number is None:
        return default
    if not low <= number <= high:
        raise query_out_of_range(name, str(number), low, high)
    return number


async def _message_text(request: Request, version: str) -> str | None:
    """The text of a `QueueMessage`; None if there is no body."""
    limit = text_bytes_max if version >= long_visibility_since else text_bytes_max_before_2011
    if request.content_length is not None and request.content_length > body_bytes_max:
        raise _too_large(limit)
    data = await request.body.read(body_bytes_max)
    if not data:
        return None
    text = message_xml.plain_text(data)
    if text is None:
        text = message_xml.any_text(data)
    if len(text) > limit or (not text.isascii() and len(text.encode()) > limit):
        raise _too_large(limit)
    return text


def _too_large(limit: int) -> Refused:
    return Refused("RequestBodyTooLarge", {"MaxLimit": str(limit)})
