"""Stored access policies as XML (Azure: 'Set Container/Queue/Table/Share ACL')."""

from collections.abc import Iterable
from typing import Final

from etagere.base.clock import Timestamp
from etagere.frontends.common import xml
from etagere.frontends.common.xml import Node
from etagere.kernel.dates import format_iso, parse_iso
from etagere.services.common.access_policy import StoredPolicy

policies_max: Final = 5
id_chars_max: Final = 64
container_letters: Final = "racwdxyltfmeopi"
queue_letters: Final = "raup"
table_letters: Final = "raud"
"""What a policy may permit (Azure: 'Create a service SAS')."""


def decode(data: bytes, letters: str) -> tuple[StoredPolicy, ...]:
    """The policies of a Set ACL, which may permit what `letters` say; an empty body clears them."""
    if not data.strip():
        return ()
    root = xml.parse(data, "SignedIdentifiers")
    if len(root.children) > policies_max:
        raise xml.invalid_document("At most five access policies can be stored.")
    policies = tuple(_policy(node, letters) for node in root.children)
    if len({policy.id for policy in policies}) != len(policies):
        raise xml.invalid_document("Two access policies have the same identifier.")
    return policies


def _policy(node: Node, letters: str) -> StoredPolicy:
    if node.name != "SignedIdentifier":
        raise xml.invalid_document(f"The element {node.name} is not expected here.")
    name = node.text_of("Id")
    if not name or len(name) > id_chars_max:
        raise xml.invalid_node("Id", name or "", "An identifier has 1 to 64 characters.")
    policy = node.child("AccessPolicy")
    if policy is None:
        return StoredPolicy(name)
    return StoredPolicy(
        name,
        _time(policy, "Start"),
        _time(policy, "Expiry"),
        _permission(policy, letters),
    )


def _permission(node: Node, letters: str) -> str | None:
    """The live service was seen to find letters that are not in its own order syntactically invalid
    (`wrld` of a container), so it says the same of unknown ones.  Any order is taken here: the
    orders that are documented have changed, and differ from one SDK to another."""
    text = (node.text_of("Permission") or "").strip()
    if not set(text) <= set(letters):
        raise xml.invalid_document(f"The permissions {text} are none of {letters}.")
    return text or None


def _time(node: Node, name: str) -> Timestamp | None:
    text = node.text_of(name)
    if not text or not text.strip():
        return None
    found = parse_iso(text.strip())
    if found is None:
        raise xml.invalid_node(name, text, "The value must be a date and time in UTC.")
    return found


def encode(policies: Iterable[StoredPolicy]) -> bytes:
    parts = [xml.declaration]
    found = [_encoded(policy) for policy in policies]
    if found:
        parts += ["<SignedIdentifiers>", *found, "</SignedIdentifiers>"]
    else:
        parts.append("<SignedIdentifiers />")
    return "".join(parts).encode()


def _encoded(policy: StoredPolicy) -> str:
    inner = "".join(
        (
            xml.element("Start", None if policy.start is None else format_iso(policy.start)),
            xml.element("Expiry", None if policy.expiry is None else format_iso(policy.expiry)),
            xml.element("Permission", policy.permission),
        )
    )
    # A policy that says nothing is an identifier alone: clients tell it from one of empty text.
    said = f"<AccessPolicy>{inner}</AccessPolicy>" if inner else ""
    return f"<SignedIdentifier>{xml.element('Id', policy.id)}{said}</SignedIdentifier>"
