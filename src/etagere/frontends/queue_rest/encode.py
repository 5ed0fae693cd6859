"""Queue results as XML (Azure: 'Get Messages', 'Put Message', 'List Queues')."""

from collections.abc import Callable, Iterable
from typing import Final

from etagere.frontends.common import xml
from etagere.frontends.common.paging import encode_marker
from etagere.kernel.dates import format_http_date
from etagere.services.queue.messages import SeenMessage
from etagere.services.queue.queues import QueueEntry, QueuePage

_escape: Final = xml.escape


def put_message(message: SeenMessage) -> bytes:
    return _list((message,), _put)


def got_messages(messages: Iterable[SeenMessage]) -> bytes:
    return _list(messages, _got)


def peeked_messages(messages: Iterable[SeenMessage]) -> bytes:
    return _list(messages, _peeked)


def _list(messages: Iterable[SeenMessage], encode: Callable[[SeenMessage], str]) -> bytes:
    inner = "".join(f"<QueueMessage>{encode(message)}</QueueMessage>" for message in messages)
    if not inner:
        return f"{xml.declaration}<QueueMessagesList />".encode()
    return f"{xml.declaration}<QueueMessagesList>{inner}</QueueMessagesList>".encode()


def _stamps(message: SeenMessage) -> str:
    return (
        f"<MessageId>{message.id}</MessageId>"
        f"<InsertionTime>{format_http_date(message.inserted)}</InsertionTime>"
        f"<ExpirationTime>{format_http_date(message.expires)}</ExpirationTime>"
    )


def _lock(message: SeenMessage) -> str:
    return (
        f"<PopReceipt>{message.pop_receipt}</PopReceipt>"
        f"<TimeNextVisible>{format_http_date(message.visible)}</TimeNextVisible>"
    )


def _content(message: SeenMessage) -> str:
    return (
        f"<DequeueCount>{message.dequeue_count}</DequeueCount>"
        f"<MessageText>{_escape(message.text)}</MessageText>"
    )


def _put(message: SeenMessage) -> str:
    return _stamps(message) + _lock(message)


def _got(message: SeenMessage) -> str:
    return _stamps(message) + _lock(message) + _content(message)


def _peeked(message: SeenMessage) -> str:
    return _stamps(message) + _content(message)


def list_queues(page: QueuePage, *, endpoint: str, asked: str) -> bytes:
    queues = "".join(_queue(entry) for entry in page.entries)
    marker = encode_marker(page.next_marker) if page.next_marker else ""
    return (
        f'{xml.declaration}<EnumerationResults ServiceEndpoint="{xml.quote(endpoint)}">'
        f"{asked}"
        f"{f'<Queues>{queues}</Queues>' if queues else '<Queues />'}"
        f"{xml.element('NextMarker', marker)}</EnumerationResults>"
    ).encode()


def _queue(entry: QueueEntry) -> str:
    metadata = "" if entry.metadata is None else _metadata(entry.metadata)
    return f"<Queue>{xml.element('Name', entry.name)}{metadata}</Queue>"


def _metadata(values: dict[str, str]) -> str:
    if not values:
        return "<Metadata />"
    inner = "".join(xml.element(name, value) for name, value in values.items())
    return f"<Metadata>{inner}</Metadata>"
