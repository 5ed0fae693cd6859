"""Requests and responses as messages ("AMQP request-response operations", AMQP management)."""

from typing import Any, Final

import msgspec

from etagere.base.errors import Refused
from etagere.frontends.bus_amqp import errors
from etagere.protocols.amqp.composites import encode_composite
from etagere.protocols.amqp.decoding import decode_whole, skip
from etagere.protocols.amqp.errors import DecodeFault
from etagere.protocols.amqp.sections import (
    Properties,
    application_properties_code,
    data_code,
    data_of,
    properties_code,
    read_map,
    read_properties,
    section,
    section_at,
    split,
    value_code,
)
from etagere.protocols.amqp.values import Array, Int, Symbol

_no_properties: Final = Properties()


class Request(msgspec.Struct, frozen=True):
    properties: Properties
    application: dict[str, Any]
    body: Any
    """Of an amqp-value, or the bytes of data."""

    @property
    def operation(self) -> str | None:
        operation = self.application.get("operation")
        return str(operation) if isinstance(operation, str) else None

    def text(self, name: str) -> str:
        """A string of the body's map."""
        value = self._field(name)
        if not isinstance(value, str):
            raise wrong(name, "string")
        return str(value)

    def optional_text(self, name: str) -> str | None:
        return None if self._optional(name) is None else self.text(name)

    def number(self, name: str) -> int:
        return whole_number(name, self._field(name))

    def numbers(self, name: str) -> list[int]:
        return [whole_number(name, item) for item in items_of(name, self._field(name))]

    def items(self, name: str) -> list[Any]:
        return items_of(name, self._field(name))

    def field(self, name: str) -> Any:
        return self._optional(name)

    def _optional(self, name: str) -> Any:
        if not isinstance(self.body, dict):
            raise Refused(errors.argument_error, message="The request's body is not a map.")
        return self.body.get(name)

    def _field(self, name: str) -> Any:
        value = self._optional(name)
        if value is None:
            raise Refused(errors.argument_error, message=f"The request lacks '{name}'.")
        return value


class Response(msgspec.Struct, frozen=True):
    application: dict[str, Any]
    body: Any


def wrong(name: str, kind: str) -> Refused:
    return Refused(errors.argument_error, message=f"The request's '{name}' is not a {kind}.")


def whole_number(name: str, value: Any) -> int:
    """Clients use every integer type."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong(name, "number")
    return int(value)


def items_of(name: str, value: Any) -> list[Any]:
    """Of an array or a list: clients take one for the other."""
    if isinstance(value, Array):
        return list(value.items)
    if isinstance(value, list):
        return value
    raise wrong(name, "list")


def read_request(payload: bytes) -> Request:
    """DecodeFault if it is no message."""
    tail = split(payload).tail
    end = len(tail)
    properties = _no_properties
    application: dict[str, Any] = {}
    body: Any = None
    at = 0
    while at < end:
        code, content = section_at(tail, at, end)
        stop = skip(tail, content, end)
        if code == properties_code:
            properties = read_properties(tail[at:stop])
        elif code == application_properties_code:
            for name, value in read_map(tail[at:stop]).items():
                if not isinstance(name, str):
                    raise DecodeFault("An application property's name is not a string.")
                application[str(name)] = value
        elif code == value_code:
            body = decode_whole(tail, content, stop)
        elif code == data_code:
            body = data_of(tail, content, stop)
        at = stop
    return Request(properties, application, body)


def write_response(request: Request, response: Response) -> bytes:
    """The correlation id has exactly the type of the request's message id: SDKs compare them."""
    asked = request.properties
    properties = Properties(
        to=asked.reply_to,
        correlation_id=asked.correlation_id if asked.message_id is None else asked.message_id,
    )
    return (
        encode_composite(properties)
        + section(application_properties_code, response.application)
        + section(value_code, response.body)
    )


def answer(status: int, description: str, body: Any, *, condition: str | None = None) -> Response:
    """In the spelling of the management operations."""
    application: dict[str, Any] = {
        "statusCode": Int(status),
        "statusDescription": description,
    }
    if condition is not None:
        application["errorCondition"] = Symbol(condition)
    return Response(application, body)
