"""A shared access signature as it stands in a query, read but not yet believed."""

import ipaddress
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final

import msgspec

from etagere.auth.failure import authentication_failed, not_authorized, showable
from etagere.auth.key_range import KeyRange, whole_table
from etagere.base.clock import Timestamp
from etagere.base.errors import Refused
from etagere.kernel.dates import parse_iso

sas_field_names: Final = frozenset(
    """
    sv ss srt sp st se sip spr sr si sig ses sdd tn spk srk epk erk rscc rscd rsce rscl rsct
    skoid sktid skt ske sks skv skdutid sduoid saoid suoid scid srh srq
    """.split()
)
_account_marks: Final = ("ss", "srt")
_account_mandatory: Final = ("sv", "ss", "srt", "sp", "se")
_delegation_mark: Final = "skoid"
_delegation_mandatory: Final = ("sv", "sp", "se", "sktid", "skt", "ske", "sks", "skv")
_dates: Final = ("st", "se", "skt", "ske")
_resources: Final = frozenset({"b", "bs", "bv", "c", "d", "f", "s", "q"})
"""A queue's is what @azure/storage-queue gives a token that a user delegation key signs; it is not
signed, and decides nothing."""
_protocols: Final[Mapping[str, bool]] = {"https": True, "https,http": False, "http,https": False}

sas_version_min_account: Final = "2015-04-05"
sas_version_min_directory: Final = "2020-02-10"
sas_version_min_encryption_scope: Final = "2020-12-06"
sas_version_min_overrides: Final = "2013-08-15"
directory_depth_max: Final = 63


class SasKind(Enum):
    ACCOUNT = "account"
    SERVICE = "service"
    DELEGATION = "delegation"


class AddressRange(msgspec.Struct, frozen=True):
    """IPv4 addresses from `low` to `high`, inclusive; empty where `sip` made no sense."""

    low: int
    high: int

    def holds(self, client_ip: str) -> bool:
        address = _ipv4(client_ip)
        return address is not None and self.low <= address <= self.high


_no_address: Final = AddressRange(1, 0)


class ResponseOverrides(msgspec.Struct, frozen=True):
    """What GET and HEAD answer in place of the stored headers; "" leaves one alone."""

    cache_control: str = ""
    content_disposition: str = ""
    content_encoding: str = ""
    content_language: str = ""
    content_type: str = ""


no_overrides: Final = ResponseOverrides()


class Sas(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of one token.  `fields` has them all as sent; the others are read from it."""

    kind: SasKind
    fields: Mapping[str, str]
    version: str
    """`sv`, by which everything about the token is decided; "" before 2012-02-12."""
    signature: str
    permissions: str
    services: str
    resource_types: str
    resource: str
    """`sr`"""
    policy_id: str
    starts: Timestamp | None
    expires: Timestamp | None
    addresses: AddressRange | None
    https_only: bool | None
    """None where `spr` is neither of the two values that it may have."""
    key_starts: Timestamp | None
    key_expires: Timestamp | None
    directory_depth: int
    overrides: ResponseOverrides
    key_range: KeyRange
    encryption_scope: str

    @property
    def needs_policy(self) -> bool:
        return self.policy_id != ""

    @property
    def needs_bearer(self) -> bool:
        """Whether the token serves one user only, who must present a bearer token beside it."""
        return self.fields.get("sduoid", "") != ""

    # `typing.override` came with Python 3.12.
    def __repr__(self) -> str:  # type: ignore[explicit-override]
        shown = {name: text for name, text in self.fields.items() if name != "sig"}
        return f"Sas({self.kind.value}, {shown})"


def parse(query: Iterable[tuple[str, str]]) -> Sas:
    """Read the token that a query carries; raises Refused where it cannot be one."""
    fields = _fields(query)
    signature = fields.get("sig", "")
    if not signature:
        raise authentication_failed("sig is mandatory. Cannot be empty")
    # Base64 has no spaces: where one stands, a `+` was decoded as forms are.
    fields["sig"] = signature = signature.replace(" ", "+")
    kind = _kind(fields)
    _check_mandatory(kind, fields)
    times = _times(fields)
    _check_versions(kind, fields)
    version = fields.get("sv", "")
    return Sas(
        kind=kind,
        fields=fields,
        version=version,
        signature=signature,
        permissions=fields.get("sp", ""),
        services=fields.get("ss", ""),
        resource_types=fields.get("srt", ""),
        resource="" if kind is SasKind.ACCOUNT else fields.get("sr", ""),
        policy_id="" if kind is SasKind.ACCOUNT else fields.get("si", ""),
        starts=times["st"],
        expires=times["se"],
        addresses=_addresses(fields.get("sip", "")),
        https_only=_protocols.get(fields["spr"]) if fields.get("spr") else False,
        key_starts=times["skt"],
        key_expires=times["ske"],
        directory_depth=_directory_depth(fields),
        overrides=_overrides(kind, version, fields),
        key_range=_key_range(kind, fields),
        encryption_scope=fields.get("ses", ""),
    )


def with_spaces(sas: Sas) -> Sas | None:
    """The token read as a form's fields are, each `+` a space; None where that changes nothing.

    .NET writes spaces so, for instance in a content disposition; other SDKs write %20 and leave a
    `+` for what it is.
    """
    if not any("+" in text for name, text in sas.fields.items() if name != "sig"):
        return None
    spaced = (
        (name, text if name == "sig" else text.replace("+", " "))
        for name, text in sas.fields.items()
    )
    try:
        return parse(spaced)
    except Refused:
        return None  # a date with an offset, say: the first reading stands


def _fields(query: Iterable[tuple[str, str]]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for name, text in query:
        if name not in sas_field_names:
            continue
        if name in fields:
            raise authentication_failed(f"{name} is given more than once")
        if _has_controls(text):
            # A line break would let one field of the signed string pass for two.
            raise authentication_failed(f"{name} has control characters")
        fields[name] = text
    return fields


def _has_controls(text: str) -> bool:
    return not text.isprintable() and any(c < " " or c == "\x7f" for c in text)


def _kind(fields: Mapping[str, str]) -> SasKind:
    if any(name in fields for name in _account_marks):
        return SasKind.ACCOUNT
    return SasKind.DELEGATION if _delegation_mark in fields else SasKind.SERVICE


def _check_mandatory(kind: SasKind, fields: Mapping[str, str]) -> None:
    mandatory: tuple[str, ...] = ()
    if kind is SasKind.ACCOUNT:
        mandatory = _account_mandatory
    elif kind is SasKind.DELEGATION:
        mandatory = _delegation_mandatory
        if fields.get("si"):
            # A key that outlives no policy cannot be revoked by one.
            raise not_authorized(
                "AuthorizationFailure", "si cannot be used with a user delegation key"
            )
    elif not fields.get("si"):
        mandatory = ("sp", "se")
    for name in mandatory:
        if not fields.get(name):
            raise authentication_failed(f"{name} is mandatory. Cannot be empty")


def _times(fields: Mapping[str, str]) -> dict[str, Timestamp | None]:
    times: dict[str, Timestamp | None] = {}
    for name in _dates:
        text = fields.get(name, "")
        times[name] = moment = parse_iso(text) if text else None
        if text and moment is None:
            raise authentication_failed(f"{name} is not a date: {text}")
    return times


def _check_versions(kind: SasKind, fields: Mapping[str, str]) -> None:
    version = fields.get("sv", "")
    if kind is SasKind.ACCOUNT and version < sas_version_min_account:
        raise authentication_failed(f"sv must be {sas_version_min_account} or later for ss and srt")
    if fields.get("ses") and version < sas_version_min_encryption_scope:
        raise authentication_failed(
            f"sv must be {sas_version_min_encryption_scope} or later for ses"
        )
    resource = fields.get("sr", "")
    if kind is not SasKind.ACCOUNT and resource and resource not in _resources:
        raise authentication_failed(f"sr is not a kind of resource: {resource}")
    if resource == "d" and version < sas_version_min_directory:
        raise Refused("DirectorySasNotSupportedVersion")


def _directory_depth(fields: Mapping[str, str]) -> int:
    if fields.get("sr") != "d":
        return 0
    text = fields.get("sdd", "")
    if not text:
        raise Refused("QueryParameterSasMandatory", {"QueryParameterName": "sdd"})
    # The length comes first: int() of a long text is slow.
    if len(text) > 3 or not (text.isascii() and text.isdecimal()):
        raise _depth_invalid(text)
    depth = int(text)
    if depth > directory_depth_max:
        raise _depth_invalid(text)
    return depth


def _depth_invalid(text: str) -> Refused:
    return Refused(
        "QueryParameterSddInvalid",
        {"QueryParameterName": "sdd", "QueryParameterValue": showable(text)},
    )


def _addresses(text: str) -> AddressRange | None:
    if not text:
        return None
    first, dash, last = text.partition("-")
    low = _ipv4(first)
    high = _ipv4(last) if dash else low
    return _no_address if low is None or high is None else AddressRange(low, high)


def _ipv4(text: str) -> int | None:
    """An IPv4 address as a number, also one that a dual-stack socket shows as ::ffff:a.b.c.d."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address):
        mapped = address.ipv4_mapped
        return None if mapped is None else int(mapped)
    return int(address)


def _overrides(kind: SasKind, version: str, fields: Mapping[str, str]) -> ResponseOverrides:
    """Only what the signature vouches for: neither an account SAS nor an old version signs them."""
    if kind is SasKind.ACCOUNT or version < sas_version_min_overrides:
        return no_overrides
    values = [fields.get(name, "") for name in ("rscc", "rscd", "rsce", "rscl", "rsct")]
    return ResponseOverrides(*values) if any(values) else no_overrides


def _key_range(kind: SasKind, fields: Mapping[str, str]) -> KeyRange:
    if kind is SasKind.ACCOUNT:
        return whole_table
    values = [fields.get(name) or None for name in ("spk", "srk", "epk", "erk")]
    return KeyRange(*values) if any(values) else whole_table
