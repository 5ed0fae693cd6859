"""The headers of a lease action, checked before anything is looked up.

Every refusal here is 400: MissingRequiredHeader, or InvalidHeaderValue with the header's name.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from etagere.base.errors import invalid_header, missing_header
from etagere.kernel.lease import (
    LeaseAction,
    LeaseKind,
    LeaseRequest,
    break_seconds_max,
    lease_seconds_infinite,
    lease_seconds_max,
    lease_seconds_min,
)

action_header: Final = "x-ms-lease-action"
id_header: Final = "x-ms-lease-id"
proposed_id_header: Final = "x-ms-proposed-lease-id"
duration_header: Final = "x-ms-lease-duration"
break_period_header: Final = "x-ms-lease-break-period"

_dashed: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_guid: Final = re.compile(
    rf"[0-9a-f]{{32}}|{_dashed}|\{{{_dashed}\}}|\({_dashed}\)", re.IGNORECASE | re.ASCII
)
_ids_remembered: Final = 1024
_number: Final = re.compile(r"-?[0-9]{1,10}", re.ASCII)


def parse_lease_request(headers: Mapping[str, str], kind: LeaseKind) -> LeaseRequest:
    """Read a lease action; `headers` are the request's by lower-case name."""
    name = _required(headers, action_header)
    try:
        action = LeaseAction(name.lower())
    except ValueError as error:
        raise invalid_header(action_header, name) from error
    if action is LeaseAction.ACQUIRE:
        duration = parse_duration(_required(headers, duration_header), kind)
        proposed = headers.get(proposed_id_header)
        proposed_id = parse_lease_id(proposed, proposed_id_header) if proposed else None
        return LeaseRequest(action, proposed_id=proposed_id, duration_seconds=duration)
    if action is LeaseAction.BREAK:
        period = headers.get(break_period_header)
        break_seconds = parse_break_period(period) if period else None
        # A file's lease is broken at once, whatever is asked for.
        return LeaseRequest(action, break_seconds=0 if kind is LeaseKind.FILE else break_seconds)
    if action is LeaseAction.RENEW and kind is LeaseKind.FILE:
        raise invalid_header(action_header, name)  # they are infinite: nothing to renew
    lease_id = parse_lease_id(_required(headers, id_header))
    if action is not LeaseAction.CHANGE:
        return LeaseRequest(action, lease_id)
    proposed_id = parse_lease_id(_required(headers, proposed_id_header), proposed_id_header)
    return LeaseRequest(action, lease_id, proposed_id)


@lru_cache(maxsize=_ids_remembered)
def parse_lease_id(text: str, header: str = id_header) -> str:
    """A GUID in any of its four spellings, as it is stored, compared and echoed.

    A holder sends its own with every request; refusals are not remembered.
    """
    if _guid.fullmatch(text) is None:
        raise invalid_header(header, text)
    digits = text.strip("{}()").replace("-", "").lower()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def parse_duration(text: str, kind: LeaseKind) -> int:
    seconds = _integer(text, duration_header)
    fixed = kind is not LeaseKind.FILE and lease_seconds_min <= seconds <= lease_seconds_max
    if seconds != lease_seconds_infinite and not fixed:
        raise invalid_header(duration_header, text)
    return seconds


def parse_break_period(text: str) -> int:
    seconds = _integer(text, break_period_header)
    if not 0 <= seconds <= break_seconds_max:
        raise invalid_header(break_period_header, text)
    return seconds


def _required(headers: Mapping[str, str], name: str) -> str:
    value = headers.get(name)
    if not value:
        raise missing_header(name)
    return value


def _integer(text: str, header: str) -> int:
    if _number.fullmatch(text) is None:
        raise invalid_header(header, text)
    return int(text)
