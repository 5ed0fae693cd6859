"""`$management` of entities ("Service Bus AMQP request-response based operations")."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from etagere.auth.bus_sas import listen, manage, send
from etagere.base.clock import Timestamp, ticks_per_millisecond
from etagere.base.errors import Refused
from etagere.frontends.bus_amqp import errors
from etagere.frontends.bus_amqp.exchange import RequestLink
from etagere.frontends.bus_amqp.links import Wire
from etagere.frontends.bus_amqp.messages import (
    DrawId,
    milliseconds,
    read_message,
    token_of,
    uuid_of,
    without_body,
    write_head,
)
from etagere.frontends.bus_amqp.requests import Request, Response, answer, wrong
from etagere.frontends.bus_amqp.rules import read_rule, subscription_of, write_rule
from etagere.kv.contract import StoreError
from etagere.protocols.amqp.errors import DecodeFault
from etagere.protocols.amqp.outcomes import DeliveryState, TransactionalState
from etagere.protocols.amqp.values import Array, Int, Milliseconds, Uuid
from etagere.services.bus.broker import Broker
from etagere.services.bus.messages import (
    Abandon,
    Complete,
    DeadLetter,
    Defer,
    Delivery,
    Message,
    Outcome,
    ReceiveMode,
)
from etagere.services.bus.transactions import Transaction

timeout_names: Final = ("com.microsoft:server-timeout", "server-timeout")
timeout_milliseconds_default: Final = 60_000
associated_link: Final = "associated-link-name"
messages_per_request_max: Final = 4_000
no_filter_milliseconds: Final = 253_402_300_799_999
"""At or after this (the year 10000 in .NET) `get-message-sessions` lists all sessions."""

no_content: Final = 204


@dataclass(frozen=True, slots=True)
class Call:
    """One request, with everything that performing it takes."""

    broker: Broker
    path: str
    """Of the entity or sub-queue, as the client writes it."""
    request: Request
    connection: object
    bytes_max: int
    """Of a response: what the client's link takes."""
    transaction: Transaction | None
    draw_id: DrawId


Perform = Callable[[Call], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Operation:
    rights: tuple[str, ...]
    """Any of them will do."""
    perform: Perform


def ok(body: dict[str, Any]) -> Response:
    return answer(200, "OK", body)


async def renew_lock(call: Call) -> Response:
    expirations = await call.broker.renew_locks(call.path, _tokens(call.request))
    return ok({"expirations": Array(Milliseconds, tuple(map(milliseconds, expirations)))})


async def peek_message(call: Call) -> Response:
    request = call.request
    deliveries = await call.broker.peek(
        call.path,
        request.number("from-sequence-number"),
        _count(request, "message-count"),
        session_id=request.optional_text("session-id"),
        bytes_max=call.bytes_max,
    )
    if not deliveries:
        return answer(no_content, "NoContent", {}, condition="com.microsoft:message-not-found")
    bare = request.field("omit-message-body") is True
    return ok({"messages": [{"message": _encoded(one, bare=bare)} for one in deliveries]})


async def schedule_message(call: Call) -> Response:
    messages = [_message(item, call.draw_id) for item in _bounded(call.request, "messages")]
    if call.transaction is None:
        numbers = await call.broker.schedule(call.path, messages)
    else:
        numbers = await call.transaction.schedule(call.path, messages)
    return ok({"sequence-numbers": Array(int, tuple(numbers))})


async def cancel_scheduled_message(call: Call) -> Response:
    numbers = call.request.numbers("sequence-numbers")
    if call.transaction is None:
        await call.broker.cancel_scheduled(call.path, numbers)
    else:
        call.transaction.cancel_scheduled(call.path, numbers)
    return ok({})


async def receive_by_sequence_number(call: Call) -> Response:
    request = call.request
    mode = request.number("receiver-settle-mode")
    if mode not in (0, 1):
        raise wrong("receiver-settle-mode", "settle mode")
    deliveries = await call.broker.receive_deferred(
        call.path,
        request.numbers("sequence-numbers"),
        ReceiveMode(mode),
        session_id=request.optional_text("session-id"),
        connection=call.connection,
    )
    return ok({"messages": [_locked(one) for one in deliveries]})


async def update_disposition(call: Call) -> Response:
    request = call.request
    outcome = _outcome(request)
    tokens = _tokens(request)
    if call.transaction is not None:
        call.transaction.settle_each(call.path, tokens, outcome)
    else:
        await call.broker.settle(
            call.path, tokens, outcome, session_id=request.optional_text("session-id")
        )
    return ok({})


async def renew_session_lock(call: Call) -> Response:
    until = await call.broker.renew_session(call.path, call.request.text("session-id"))
    return ok({"expiration": milliseconds(until)})


async def get_session_state(call: Call) -> Response:
    state = await call.broker.session_state(call.path, call.request.text("session-id"))
    return ok({"session-state": state})


async def set_session_state(call: Call) -> Response:
    state = call.request.field("session-state")
    if state is not None and type(state) is not bytes:
        raise wrong("session-state", "binary")
    # Go has no null for bytes, and means none by no bytes.
    await call.broker.set_session_state(call.path, call.request.text("session-id"), state or None)
    return ok({})


async def get_message_sessions(call: Call) -> Response:
    request = call.request
    since = request.number("last-updated-time")
    after = None
    if since < no_filter_milliseconds:
        after = Timestamp(since * ticks_per_millisecond)
    skip = request.number("skip")
    ids = await call.broker.list_sessions(
        call.path, after, skip=max(skip, 0), top=_count(request, "top")
    )
    if not ids:
        return answer(no_content, "NoContent", {}, condition="com.microsoft:session-not-found")
    return ok({"skip": Int(skip + len(ids)), "sessions-ids": Array(str, tuple(ids))})


async def batch_delete_messages(call: Call) -> Response:
    request = call.request
    before = request.number("enqueued-time-utc") * ticks_per_millisecond
    deleted = await call.broker.delete_messages(
        call.path,
        _count(request, "message-count"),
        Timestamp(before),
        session_id=request.optional_text("session-id"),
    )
    if not deleted:
        return answer(no_content, "NoContent", {})
    return ok({"message-count": Int(deleted)})


async def add_rule(call: Call) -> Response:
    topic, subscription = subscription_of(call.path)
    rule = read_rule(call.request.text("rule-name"), call.request.field("rule-description"))
    await call.broker.administration.add_rule(topic, subscription, rule)
    return ok({})


async def remove_rule(call: Call) -> Response:
    topic, subscription = subscription_of(call.path)
    name = call.request.text("rule-name")
    await call.broker.administration.remove_rule(topic, subscription, name)
    return ok({})


async def enumerate_rules(call: Call) -> Response:
    topic, subscription = subscription_of(call.path)
    skip = max(call.request.number("skip"), 0)
    top = _count(call.request, "top")
    rules = call.broker.administration.rules(topic, subscription)[skip : skip + top]
    if not rules:
        return answer(no_content, "NoContent", {})
    return ok({"rules": [{"rule-description": write_rule(rule)} for rule in rules]})


operations: Final[dict[str, Operation]] = {
    "com.microsoft:renew-lock": Operation((listen,), renew_lock),
    "com.microsoft:peek-message": Operation((listen,), peek_message),
    "com.microsoft:schedule-message": Operation((send,), schedule_message),
    "com.microsoft:cancel-scheduled-message": Operation((send,), cancel_scheduled_message),
    "com.microsoft:receive-by-sequence-number": Operation((listen,), receive_by_sequence_number),
    "com.microsoft:update-disposition": Operation((listen,), update_disposition),
    "com.microsoft:renew-session-lock": Operation((listen,), renew_session_lock),
    "com.microsoft:get-session-state": Operation((listen,), get_session_state),
    "com.microsoft:set-session-state": Operation((listen,), set_session_state),
    "com.microsoft:get-message-sessions": Operation((listen,), get_message_sessions),
    "com.microsoft:batch-delete-messages": Operation((listen,), batch_delete_messages),
    "com.microsoft:add-rule": Operation((manage, listen), add_rule),
    "com.microsoft:remove-rule": Operation((manage, listen), remove_rule),
    "com.microsoft:enumerate-rules": Operation((manage, listen), enumerate_rules),
}


class Management:
    """The node of one entity, for one request link."""

    def __init__(self, wire: Wire, broker: Broker, path: str, connection: object) -> None:
        self._wire = wire
        self._broker = broker
        self._path = path
        self._connection = connection

    def ask(self, request: Request, link: RequestLink, state: DeliveryState | None) -> None:
        wire = self._wire
        wire.touch(request.application.get(associated_link))
        operation = operations.get(request.operation or "")
        if operation is None:
            link.answer(request, self._refusal(errors.not_implemented, "The operation is unknown."))
            return
        node = link.route.node
        if not any(wire.allows(right, node) for right in operation.rights):
            error = wire.speaker.unauthorized(operation.rights[0], self._path)
            link.answer(
                request,
                answer(401, error.description or "", {}, condition=errors.unauthorized),
            )
            return
        try:
            call = Call(
                self._broker,
                self._path,
                request,
                self._connection,
                _response_bytes_max,
                self._transaction(state),
                wire.draw_id,
            )
        except Refused as refused:
            link.answer(request, self._refused(refused))
            return
        Asked(self, link, call, operation).start(wire)

    def _transaction(self, state: DeliveryState | None) -> Transaction | None:
        if isinstance(state, TransactionalState):
            return self._wire.transactions.find(state.transaction_id)
        return None

    def _refused(self, refused: Refused) -> Response:
        return self._refusal(refused.code, refused.message or refused.code)

    def _refusal(self, condition: str, message: str) -> Response:
        description = self._wire.speaker.describe(message, self._path)
        return answer(errors.status_of(condition), description, {}, condition=condition)

    async def perform(self, call: Call, operation: Operation) -> Response:
        try:
            return await operation.perform(call)
        except Refused as refused:
            return self._refused(refused)
        except DecodeFault as fault:
            return self._refusal(fault.condition, fault.description)
        except StoreError:
            return self._refusal(errors.internal_error, "The store failed; try again later.")

    def late(self) -> Response:
        return self._refusal(errors.timed_out, "The operation did not complete in time.")


class Asked:
    """A request under way: answered when it is performed, or when its time is over."""

    def __init__(
        self, management: Management, link: RequestLink, call: Call, operation: Operation
    ) -> None:
        self._management = management
        self._link = link
        self._call = call
        self._operation = operation
        self._answered = False

    def start(self, wire: Wire) -> None:
        due = Timestamp(wire.now + timeout_ticks(self._call.request))
        self._alarm = wire.host.at(due, self._late)
        self._job = wire.host.spawn(self._run())

    async def _run(self) -> None:
        response = await self._management.perform(self._call, self._operation)
        self._alarm.cancel()
        self._answer(response)

    def _late(self) -> None:
        """The client has given up, or is about to; a change under way may still be made."""
        if not self._answered:
            self._answer(self._management.late())
            self._job.cancel()

    def _answer(self, response: Response) -> None:
        if not self._answered:
            self._answered = True
            self._link.answer(self._call.request, response)


_response_bytes_max: Final = 262_144
_timeout_milliseconds_max: Final = 0xFFFFFFFF


def timeout_ticks(request: Request) -> int:
    for name in timeout_names:
        value = request.application.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return min(int(value), _timeout_milliseconds_max) * ticks_per_millisecond
    return timeout_milliseconds_default * ticks_per_millisecond


def _tokens(request: Request) -> list[bytes]:
    """Lock tokens as the broker keeps them: in the order of delivery tags."""
    tokens: list[bytes] = []
    for item in _bounded(request, "lock-tokens"):
        if type(item) not in (Uuid, bytes) or len(item) != 16:
            raise wrong("lock-tokens", "list of lock tokens")
        tokens.append(token_of(bytes(item)))
    return tokens


def _bounded(request: Request, name: str) -> list[Any]:
    items = request.items(name)
    if len(items) > messages_per_request_max:
        raise Refused(
            "com.microsoft:argument-out-of-range", message=f"The request's '{name}' is too long."
        )
    return items


def _count(request: Request, name: str) -> int:
    count = request.number(name)
    if count < 1:
        raise Refused(
            "com.microsoft:argument-out-of-range", message=f"The request's '{name}' is too small."
        )
    return count


def _message(item: Any, draw_id: DrawId) -> Message:
    encoded = item.get("message") if isinstance(item, dict) else None
    if type(encoded) is not bytes:
        raise wrong("messages", "list of messages")
    return read_message(encoded, draw_id)


def _encoded(delivery: Delivery, *, bare: bool = False) -> bytes:
    head = write_head(delivery, state=True)
    return head + (without_body(delivery.tail) if bare else delivery.tail)


def _locked(delivery: Delivery) -> dict[str, Any]:
    message: dict[str, Any] = {"message": _encoded(delivery)}
    if delivery.lock_token is not None:
        message["lock-token"] = uuid_of(delivery.lock_token)
    return message


def _outcome(request: Request) -> Outcome:
    changes = request.field("properties-to-modify") or {}
    if not isinstance(changes, dict):
        raise wrong("properties-to-modify", "map")
    named = {str(name): value for name, value in changes.items()}
    match request.text("disposition-status"):
        case "completed":
            return Complete()
        case "abandoned":
            return Abandon(named)
        case "defered" | "deferred":
            return Defer(named)
        case "suspended":
            return DeadLetter(
                request.optional_text("deadletter-reason"),
                request.optional_text("deadletter-description"),
                named,
            )
        case _:
            raise wrong("disposition-status", "disposition")
