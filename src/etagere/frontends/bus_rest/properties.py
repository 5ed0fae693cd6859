"""`BrokerProperties` and custom properties in HTTP headers, both ways (Service Bus REST, 'Message
headers and properties')."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any, Final
from uuid import UUID

from etagere.base.clock import Timestamp, ticks_per_millisecond
from etagere.base.errors import Refused
from etagere.frontends.common.message import Request
from etagere.kernel.dates import format_http_date, parse_http_date
from etagere.protocols.amqp.values import Milliseconds
from etagere.services.bus import errors
from etagere.services.bus.messages import Delivery, Properties

_epoch: Final = datetime(1970, 1, 1, tzinfo=UTC)
_millisecond: Final = timedelta(milliseconds=1)
ttl_unlimited_seconds: Final = 922337203685.47754
properties_bytes_max: Final = 64 * 1024
_text_keys: Final = {
    "correlationid": "correlation_id",
    "label": "subject",
    "messageid": "message_id",
    "replyto": "reply_to",
    "replytosessionid": "reply_to_group_id",
    "sessionid": "group_id",
    "to": "to",
}

# What HTTP itself, and the service's own headers, take up; every other header is a property.
_standard_headers: Final = frozenset(
    """
    accept accept-charset accept-encoding accept-language authorization brokerproperties
    cache-control connection content-encoding content-language content-length content-location
    content-md5 content-range content-type cookie date expect from host if-match if-modified-since
    if-none-match if-range if-unmodified-since keep-alive max-forwards origin pragma
    proxy-authorization proxy-connection range referer te trailer transfer-encoding upgrade
    user-agent via warning x-ms-retrypolicy x-ms-client-request-id x-ms-version x-process-at
    servicebusauthorization servicebussupplementaryauthorization
    """.split()
)
_reply_headers: Final = frozenset(
    "location proxy-authenticate retry-after server set-cookie www-authenticate".split()
)


def may_be_header(name: str) -> bool:
    """Whether a property may be shown as a header: none may say how the reply is to be read."""
    if not name.isascii() or not name:
        return False
    folded = name.lower()
    return (
        all(char.isalnum() or char in "!#$%&'*+-.^_`|~" for char in name)
        and folded not in _standard_headers
        and folded not in _reply_headers
    )


class BrokerProperties:
    """What a sender may say of a message."""

    __slots__ = ("fields", "partition_key", "scheduled_at", "ttl_ms")

    def __init__(self) -> None:
        self.fields: dict[str, str] = {}
        """By the names that AMQP's properties section has."""
        self.partition_key: str | None = None
        self.scheduled_at: Timestamp | None = None
        self.ttl_ms: int | None = None


def _invalid(reason: str) -> Refused:
    return errors.argument("BrokerProperties", reason)


def read_broker_properties(text: str | None) -> BrokerProperties:
    """Read the header's one line of JSON; unknown keys are ignored."""
    if not text:
        return BrokerProperties()
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        raise _invalid("BrokerProperties is not JSON.") from None
    return from_mapping(raw)


def from_mapping(raw: object) -> BrokerProperties:
    found = BrokerProperties()
    if not isinstance(raw, dict):
        raise _invalid("BrokerProperties is not a JSON object.")
    for key, value in raw.items():
        folded = key.casefold()
        if value is None:
            continue
        if folded in _text_keys:
            found.fields[_text_keys[folded]] = _text(key, value)
        elif folded == "partitionkey":
            found.partition_key = _text(key, value)
        elif folded == "scheduledenqueuetimeutc":
            found.scheduled_at = parse_http_date(_text(key, value))
            if found.scheduled_at is None:
                raise _invalid(f"{key} is not an RFC 1123 date.")
        elif folded == "timetolive":
            found.ttl_ms = _milliseconds(key, value)
        elif folded == "timetolivetimespan":
            found.ttl_ms = _time_span(key, _text(key, value))
    return found


def _text(key: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _invalid(f"{key} is not text.")
    return str(value)


def _milliseconds(key: str, value: object) -> int | None:
    try:
        seconds = float(value) if not isinstance(value, bool) else None  # type: ignore[arg-type]  # ValueError says so
    except (TypeError, ValueError):
        seconds = None
    except OverflowError:  # an integer that no float can hold
        seconds = inf if value > 0 else None  # type: ignore[operator]  # it is an integer
    if seconds is None or not seconds > 0:
        raise _invalid(f"{key} is not a number of seconds.")
    return _bounded(seconds)


def _bounded(seconds: float) -> int | None:
    milliseconds = seconds * 1000
    return None if milliseconds >= 0xFFFFFFFF else max(1, int(milliseconds))


def _time_span(key: str, text: str) -> int | None:
    """`[d.]hh:mm:ss`"""
    days, dot, clock = (
        text.rpartition(".")
        if text.count(":") == 2 and "." in text.split(":", maxsplit=1)[0]
        else ("", "", text)
    )
    parts = clock.split(":")
    try:
        hours, minutes, seconds = int(parts[0]), int(parts[1]), float(parts[2])
        total = ((int(days) if dot else 0) * 24 + hours) * 3600 + minutes * 60 + seconds
    except (ValueError, IndexError, OverflowError):
        raise _invalid(f"{key} is not a time span.") from None
    if not total > 0:
        raise _invalid(f"{key} is not above zero.")
    return _bounded(total)


def read_custom(request: Request) -> dict[str, Any]:
    """Every header that is not HTTP's is a property of the message."""
    return {
        name: read_value(value)
        for name, value in request.headers.items()
        if name not in _standard_headers
    }


def read_value(text: str) -> Any:
    """Text in quotes, numbers and booleans bare; a quoted RFC 1123 date is a date."""
    stripped = text.strip()
    if len(stripped) >= 2 and stripped[0] == '"' == stripped[-1]:
        inner = stripped[1:-1].replace('\\"', '"')
        moment = parse_http_date(inner)
        if moment is not None and inner.endswith("GMT"):
            return Milliseconds((moment) // ticks_per_millisecond)
        return inner
    if stripped.lower() in ("true", "false"):
        return stripped.lower() == "true"
    try:
        number = int(stripped)
    except ValueError:
        pass
    else:
        if -(2**63) <= number < 2**63:
            return number
    try:
        return float(stripped)
    except ValueError:
        return stripped


def write_value(value: object) -> str | None:
    """None for what a header cannot carry."""
    match value:
        case bool():
            return "true" if value else "false"
        case datetime():
            ticks = (value - _epoch) // _millisecond * ticks_per_millisecond
            return f'"{format_http_date(Timestamp(ticks))}"'
        case UUID():
            return f'"{value}"'
        case int() | float():
            return str(value)
        case str():
            escaped = value.replace('"', '\\"')
            return f'"{escaped}"'
        case _:
            return None


def write_broker_properties(delivery: Delivery, properties: Properties) -> str:
    """The header's line; DeliveryCount counts this delivery too."""
    found: dict[str, object] = {
        "DeliveryCount": delivery.delivery_count + 1,
        "EnqueuedSequenceNumber": delivery.enqueued_sequence_number,
        "EnqueuedTimeUtc": format_http_date(delivery.enqueued_at),
    }
    if delivery.locked_until is not None and delivery.lock_token is not None:
        found["LockToken"] = lock_token(delivery)
        found["LockedUntilUtc"] = format_http_date(delivery.locked_until)
    texts: Mapping[str, str | None] = {
        "MessageId": properties.message_id,
        "CorrelationId": properties.correlation_id,
        "Label": properties.subject,
        "ReplyTo": properties.reply_to,
        "ReplyToSessionId": properties.reply_to_group_id,
        "SessionId": properties.group_id,
        "To": properties.to,
        "PartitionKey": delivery.partition_key,
    }
    found.update({name: text for name, text in texts.items() if text is not None})
    if delivery.scheduled_at is not None:
        found["ScheduledEnqueueTimeUtc"] = format_http_date(delivery.scheduled_at)
    found["SequenceNumber"] = delivery.sequence_number
    found["State"] = delivery.state.name.capitalize()
    ttl = delivery.ttl_ms
    found["TimeToLive"] = ttl_unlimited_seconds if ttl is None else ttl / 1000
    return json.dumps(found, ensure_ascii=True, separators=(",", ":"))


def lock_token(delivery: Delivery) -> str:
    """The token as .NET writes a GUID of these bytes."""
    assert delivery.lock_token is not None
    raw = delivery.lock_token
    ordered = raw[3::-1] + raw[5:3:-1] + raw[7:5:-1] + raw[8:]
    text = ordered.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def read_lock_token(text: str) -> bytes | None:
    digits = text.strip("{}").replace("-", "")
    if len(digits) != 32:
        return None
    try:
        raw = bytes.fromhex(digits)
    except ValueError:
        return None
    return raw[3::-1] + raw[5:3:-1] + raw[7:5:-1] + raw[8:]
