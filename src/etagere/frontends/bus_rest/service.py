"""Messages over HTTP/1.1 (Service Bus REST, 'Send', 'Peek-lock', 'Receive and delete', 'Unlock',
'Renew lock')."""

import json
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from etagere.auth.bus_sas import listen, send
from etagere.base.clock import Clock, seconds
from etagere.base.entropy import Entropy
from etagere.base.errors import Refused
from etagere.frontends.bus_admin.access import Access
from etagere.frontends.bus_admin.errors import Speaker, bad_request, method_not_allowed
from etagere.frontends.bus_rest.messages import body_of, make_message
from etagere.frontends.bus_rest.properties import (
    BrokerProperties,
    from_mapping,
    lock_token,
    may_be_header,
    read_broker_properties,
    read_custom,
    read_lock_token,
    write_broker_properties,
    write_value,
)
from etagere.frontends.common.addressing import decode
from etagere.frontends.common.message import Request, Response
from etagere.protocols.amqp.errors import EncodeError
from etagere.services.bus import errors
from etagere.services.bus.broker import Broker
from etagere.services.bus.messages import (
    Delivery,
    Message,
    ReceiveMode,
    SectionCodec,
    abandon,
    complete,
)

batch_type: Final = "application/vnd.microsoft.servicebus.json"
default_type: Final = "application/atom+xml;type=entry;charset=utf-8"
message_bytes_max: Final = 1024 * 1024
"""Over HTTP, however large a message the entity takes over AMQP (Service Bus quotas)."""
body_bytes_max: Final = message_bytes_max + 64 * 1024
"""Read of a body; what the entity takes is for the broker to say."""
batch_messages_max: Final = 4096
wait_seconds_default: Final = 60
wait_seconds_max: Final = 240


class Place(NamedTuple):
    entity: str
    action: tuple[str, ...]
    """What follows `messages`: nothing, `head`, or a message's id and its lock token."""


def locate(raw_path: str) -> Place | None:
    """None where the path is not about messages."""
    parts = [decode(part) for part in raw_path.strip("/").split("/")]
    folded = [part.casefold() for part in parts]
    if "messages" not in folded[1:]:
        return None
    at = len(folded) - 1 - folded[::-1].index("messages")
    action = tuple(parts[at + 1 :])
    if len(action) > 2 or action[:1] == ("",):
        return None
    return Place("/".join(parts[:at]), action)


def _too_large() -> Refused:
    return Refused(
        errors.message_too_large,
        message=f"A message or batch over HTTP is larger than {message_bytes_max} bytes.",
    )


async def _read_body(request: Request) -> bytes:
    try:
        return await request.body.read(body_bytes_max)
    except Refused as refused:
        if refused.code == "RequestBodyTooLarge":
            raise _too_large() from None
        raise


class BusRest:
    def __init__(
        self,
        broker: Broker,
        access: Access,
        codec: SectionCodec,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        self._broker = broker
        self._access = access
        self._codec = codec
        self._entropy = entropy
        self._speaker = Speaker(clock, entropy)

    async def handle(self, request: Request) -> Response:
        return await self._speaker.reply(request, self._perform)

    async def _perform(self, request: Request) -> Response:
        place = locate(request.raw_path)
        if place is None:
            raise Refused(bad_request, message="The path names no message operation.")
        self._access.require(request, listen if place.action else send)
        key = (request.method, "head" if len(place.action) == 1 else len(place.action))
        handlers: dict[tuple[str, object], Callable[[Request, Place], Awaitable[Response]]] = {
            ("POST", 0): self._send,
            ("POST", "head"): self._peek_lock,
            ("DELETE", "head"): self._receive,
            ("DELETE", 2): self._complete,
            ("PUT", 2): self._unlock,
            ("POST", 2): self._renew,
        }
        handler = handlers.get(key)
        if handler is None or (len(place.action) == 1 and place.action[0].casefold() != "head"):
            raise Refused(method_not_allowed)
        return await handler(request, place)

    # ---- sending

    async def _send(self, request: Request, place: Place) -> Response:
        self._broker.resolve(place.entity)
        data = await _read_body(request)
        content_type = request.headers.get("content-type")
        if content_type and content_type.partition(";")[0].strip().lower() == batch_type:
            messages = self._batch(data)
        else:
            said = read_broker_properties(request.headers.get("brokerproperties"))
            custom = {
                request.spelling.get(name, name): value
                for name, value in read_custom(request).items()
            }
            messages = [self._message(data, said, custom, content_type)]
        if sum(message.size for message in messages) > message_bytes_max:
            raise _too_large()
        await self._broker.send(place.entity, messages)
        return Response(201)

    def _message(
        self,
        body: bytes,
        said: BrokerProperties,
        custom: dict[str, object],
        content_type: str | None,
    ) -> Message:
        fresh_id = self._entropy.uuid().replace("-", "")
        try:
            return make_message(body, said, custom, content_type, fresh_id)
        except (EncodeError, UnicodeEncodeError):  # JSON has longer numbers, and half characters
            raise errors.argument("Properties", "AMQP cannot carry a property's value.") from None

    def _batch(self, data: bytes) -> list[Message]:
        """A JSON array of messages, all of which are stored or none."""
        try:
            items = json.loads(data)
        except (ValueError, RecursionError):
            raise errors.argument("Body", "The batch is not JSON.") from None
        if not isinstance(items, list) or not 1 <= len(items) <= batch_messages_max:
            raise errors.argument("Body", "The batch is not an array of messages.")
        return [self._batched(item) for item in items]

    def _batched(self, item: object) -> Message:
        if not isinstance(item, dict) or not isinstance(item.get("Body"), str):
            raise errors.argument("Body", "A message of the batch has no body.")
        said = from_mapping(item.get("BrokerProperties") or {})
        custom = item.get("UserProperties") or {}
        if not isinstance(custom, dict) or any(isinstance(v, dict | list) for v in custom.values()):
            raise errors.argument("UserProperties", "The properties are not a flat object.")
        try:
            body = item["Body"].encode()
        except UnicodeEncodeError:
            raise errors.argument("Body", "A message's body is not Unicode.") from None
        return self._message(body, said, custom, None)

    # ---- receiving

    async def _peek_lock(self, request: Request, place: Place) -> Response:
        delivery = await self._take(request, place, ReceiveMode.peek_lock)
        if delivery is None:
            return Response(204)
        response = self._shown(delivery, 201)
        scheme = "https" if request.secure else "http"
        response.headers["Location"] = (
            f"{scheme}://{request.host}/{place.entity.lower()}/messages/"
            f"{delivery.sequence_number}/{lock_token(delivery)}"
        )
        return response

    async def _receive(self, request: Request, place: Place) -> Response:
        delivery = await self._take(request, place, ReceiveMode.receive_and_delete)
        return Response(204) if delivery is None else self._shown(delivery, 200)

    async def _take(self, request: Request, place: Place, mode: ReceiveMode) -> Delivery | None:
        text = request.query.get("timeout", str(wait_seconds_default))
        if not (text.isascii() and text.isdigit() and len(text) <= 9):
            raise Refused(bad_request, message="timeout is not a number of seconds.")
        wait = seconds(min(int(text), wait_seconds_max))
        return await self._broker.receive(place.entity, mode, wait_ticks=wait)

    def _shown(self, delivery: Delivery, status: int) -> Response:
        properties = self._codec.properties(delivery.tail)
        headers = {"BrokerProperties": write_broker_properties(delivery, properties)}
        for name, value in self._codec.application_properties(delivery.tail).items():
            text = write_value(value)
            if text is not None and may_be_header(name):
                headers[name] = text
        headers["Content-Type"] = properties.content_type or default_type
        return Response(status, headers, body_of(delivery.tail))

    # ---- settling

    def _token(self, place: Place) -> bytes:
        token = read_lock_token(place.action[1])
        if token is None:
            raise Refused(bad_request, message="The lock token is not a GUID.")
        return token

    async def _complete(self, _request: Request, place: Place) -> Response:
        await self._broker.settle(place.entity, [self._token(place)], complete)
        return Response(200)

    async def _unlock(self, _request: Request, place: Place) -> Response:
        await self._broker.settle(place.entity, [self._token(place)], abandon)
        return Response(200)

    async def _renew(self, _request: Request, place: Place) -> Response:
        await self._broker.renew_locks(place.entity, [self._token(place)])
        return Response(200)
