"""Refusals: what the domain says no with.  How a protocol spells one is the frontend's business."""

from collections.abc import Mapping
from types import MappingProxyType

_none: Mapping[str, str] = MappingProxyType({})


class Refused(Exception):  # noqa: N818 - a refusal is an answer, not an error of ours
    """An operation was refused; nothing was changed.

    `code` is the service's own error code ("LeaseIdMissing"); status and message belong to the
    frontends' tables.  `details` become extra elements of the error body, in order
    ("HeaderName", "HeaderValue"); `headers` are added to the response.  `status` is set where one
    code has two (ConditionNotMet is 304 for reads and 412 for writes).
    """

    def __init__(
        self,
        code: str,
        details: Mapping[str, str] = _none,
        *,
        headers: Mapping[str, str] = _none,
        message: str | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(code)
        self.code = code
        self.details = details
        self.headers = headers
        self.message = message
        self.status = status


def invalid_header(name: str, value: str) -> Refused:
    return Refused("InvalidHeaderValue", {"HeaderName": name, "HeaderValue": value})


def missing_header(name: str) -> Refused:
    return Refused("MissingRequiredHeader", {"HeaderName": name})


def invalid_query(name: str, value: str, reason: str = "") -> Refused:
    return Refused(
        "InvalidQueryParameterValue",
        {"QueryParameterName": name, "QueryParameterValue": value, "Reason": reason},
    )


def missing_query(name: str) -> Refused:
    return Refused("MissingRequiredQueryParameter", {"QueryParameterName": name})


def query_out_of_range(name: str, value: str, low: int, high: int) -> Refused:
    return Refused(
        "OutOfRangeQueryParameterValue",
        {
            "QueryParameterName": name,
            "QueryParameterValue": value,
            "MinimumAllowed": str(low),
            "MaximumAllowed": str(high),
        },
    )
