"""User delegation keys: issued to whoever has a bearer token, derived again when they are used.

A key is a function of the account's key and of the fields that every token signed with it repeats,
so that nothing is stored, and rotating the account's key revokes all of them.
"""

from dataclasses import dataclass
from typing import Final

from etagere.auth.signing_key import SigningKey
from etagere.base.clock import Timestamp, ticks_per_second
from etagere.base.errors import Refused
from etagere.kernel.dates import format_iso_seconds

delegation_seconds_max: Final = 7 * 24 * 3600
_domain: Final = "etagere user delegation key 1"


@dataclass(frozen=True, slots=True)
class UserDelegationKey:
    """The elements of the answer to Get User Delegation Key, in their order."""

    signed_oid: str
    signed_tid: str
    signed_start: str
    signed_expiry: str
    signed_service: str
    signed_version: str
    signed_delegated_user_tid: str
    """"" where the request named no tenant."""
    value: str


def issue(
    key: SigningKey,
    *,
    oid: str,
    tid: str,
    start: Timestamp | None,
    expiry: Timestamp,
    service: str,
    version: str,
    now: Timestamp,
    delegated_tid: str = "",
) -> UserDelegationKey:
    """Make a key; raises Refused where its life is empty or reaches more than a week from now."""
    begin = now if start is None else start
    for node, moment, wrong, reason in (
        (
            "Expiry",
            expiry,
            expiry <= begin or expiry <= now,
            "The expiry must be after the start and after the current time.",
        ),
        (
            "Expiry",
            expiry,
            expiry - now > delegation_seconds_max * ticks_per_second,
            "The expiry must be within seven days of the current time.",
        ),
        (
            "Start",
            begin,
            begin - now > delegation_seconds_max * ticks_per_second,
            "The start must be within seven days of the current time.",
        ),
    ):
        if wrong:
            raise Refused(
                "InvalidXmlNodeValue",
                {
                    "XmlNodeName": node,
                    "XmlNodeValue": format_iso_seconds(moment),
                    "Reason": reason,
                },
            )
    # Whole seconds: some SDKs parse these dates and write them again, without a fraction.
    signed_start, signed_expiry = format_iso_seconds(begin), format_iso_seconds(expiry)
    derived = delegation_key(
        key,
        oid=oid,
        tid=tid,
        start=signed_start,
        expiry=signed_expiry,
        service=service,
        version=version,
        delegated_tid=delegated_tid,
    )
    return UserDelegationKey(
        oid,
        tid,
        signed_start,
        signed_expiry,
        service,
        version,
        delegated_tid,
        derived.secret_base64(),
    )


def delegation_key(
    key: SigningKey,
    *,
    oid: str,
    tid: str,
    start: str,
    expiry: str,
    service: str,
    version: str,
    delegated_tid: str = "",
) -> SigningKey:
    """The key that these fields name.

    The account's key signs a string that no client asks it to sign, and what comes of it signs the
    fields, each with its length: no key that is given away can serve as a signature of anything.
    """
    intermediate = SigningKey(key.digest(_domain))
    fields = (oid, tid, start, expiry, service, version, delegated_tid)
    return SigningKey(intermediate.digest("".join(f"{len(field)}:{field}\n" for field in fields)))
