"""Get User Delegation Key (Azure: 'Get User Delegation Key')."""

from etagere.auth import delegation
from etagere.auth.identity import BearerIdentity
from etagere.base.clock import Timestamp
from etagere.base.errors import Refused
from etagere.frontends.common import xml
from etagere.frontends.common.call import Call
from etagere.frontends.common.xml import Node
from etagere.kernel.dates import parse_iso

_unknown_id = "00000000-0000-0000-0000-000000000000"


def issue(call: Call, body: bytes, service: str, now: Timestamp) -> bytes:
    """The key for whoever's bearer token the request carries."""
    identity = call.identity
    assert isinstance(identity, BearerIdentity), "authorization lets nobody else through"
    root = xml.parse(body, "KeyInfo")
    expiry = _time(root, "Expiry")
    if expiry is None:
        raise Refused("MissingRequiredXmlNode", {"XmlNodeName": "Expiry"})
    key = delegation.issue(
        call.account.keys[0],
        oid=identity.claims.oid or identity.claims.sub or _unknown_id,
        tid=identity.claims.tid or _unknown_id,
        start=_time(root, "Start"),
        expiry=expiry,
        service=service,
        version=call.version,
        now=now,
        delegated_tid=root.text_of("DelegatedUserTid") or "",
    )
    elements = (
        ("SignedOid", key.signed_oid),
        ("SignedTid", key.signed_tid),
        ("SignedStart", key.signed_start),
        ("SignedExpiry", key.signed_expiry),
        ("SignedService", key.signed_service),
        ("SignedVersion", key.signed_version),
        ("SignedDelegatedUserTid", key.signed_delegated_user_tid or None),
        ("Value", key.value),
    )
    inner = "".join(xml.element(name, text) for name, text in elements)
    return f"{xml.declaration}<UserDelegationKey>{inner}</UserDelegationKey>".encode()


def _time(root: Node, name: str) -> Timestamp | None:
    text = root.text_of(name)
    if not text:
        return None
    found = parse_iso(text)
    if found is None:
        raise xml.invalid_node(name, text, "The value must be a date and time in UTC.")
    return found
