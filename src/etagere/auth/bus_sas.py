"""Shared access signatures of Service Bus ("Service Bus access control with SAS").

A token is `SharedAccessSignature sr=..&sig=..&se=..&skn=..`, in any order: whoever knows the key
called `skn` allows what that key's rule allows, on `sr` and below it, until `se`.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, unquote_plus

from etagere.base.clock import Timestamp, ticks_per_second, timestamp_never
from etagere.base.errors import Refused
from etagere.kernel.dates import format_iso_seconds

prefix: Final = "SharedAccessSignature "
token_chars_max: Final = 8_192

manage: Final = "Manage"
send: Final = "Send"
listen: Final = "Listen"

invalid_signature: Final = "InvalidSignature"
expired: Final = "ExpiredToken"
malformed: Final = "MalformedToken"
unknown_key: Final = "UnknownKey"
outside_scope: Final = "InvalidAudience"


@dataclass(frozen=True, slots=True)
class SasRule:
    """A key pair with the rights that it gives; keys are used as the text that they are."""

    name: str
    rights: frozenset[str]
    primary_key: str
    secondary_key: str = ""

    def allows(self, right: str) -> bool:
        return right in self.rights or manage in self.rights

    def has_key(self, key: str) -> bool:
        """In time that does not tell how nearly."""
        given = key.encode("utf-8", "surrogatepass")
        primary = hmac.compare_digest(given, self.primary_key.encode())
        secondary = hmac.compare_digest(given, self.secondary_key.encode())
        return primary or (secondary and self.secondary_key != "")


FindRule = Callable[[str, str], SasRule | None]
"""(path, rule name) to the rule of exactly this path; the empty path is the namespace's."""


@dataclass(frozen=True, slots=True)
class SasToken:
    resource: str
    """`sr` as it came: this is what was signed."""
    signature: str
    expiry: str
    rule_name: str


@dataclass(frozen=True, slots=True)
class Grant:
    """What a token allows on one path and below it."""

    path: str
    rights: frozenset[str]
    expires_at: Timestamp

    def allows(self, right: str, path: str) -> bool:
        return (right in self.rights or manage in self.rights) and covers(self.path, path)


def parse_token(text: str) -> SasToken:
    if not text.startswith(prefix) or len(text) > token_chars_max:
        raise _refused(malformed, "The token is not a shared access signature.")
    fields: dict[str, str] = {}
    for pair in text[len(prefix) :].split("&"):
        name, equals, value = pair.strip().partition("=")
        if not equals or name in fields:
            raise _refused(malformed, "The token is malformed.")
        fields[name] = value
    if not {"sr", "sig", "se", "skn"} <= fields.keys():
        raise _refused(malformed, "The token lacks one of sr, sig, se and skn.")
    return SasToken(fields["sr"], unquote(fields["sig"]), fields["se"], unquote(fields["skn"]))


def verify(text: str, audience: str, find_rule: FindRule, now: Timestamp) -> Grant:
    """The grant of a token for `audience` (a path, see `path_of`); Refused if it is not good."""
    token = parse_token(text)
    expires_at = _expiry(token.expiry)
    rule = _rule_for(audience, token.rule_name, find_rule)
    if rule is None:
        raise _refused(unknown_key, "The token's key name is unknown.")
    if not _signed(token, rule):
        raise _refused(invalid_signature, "The token has an invalid signature.")
    if expires_at <= now:
        moment = format_iso_seconds(expires_at)
        raise _refused(expired, f"The token is expired. Expiration time: {moment}.")
    if not covers(path_of(unquote_plus(token.resource)), audience):
        raise _refused(outside_scope, "The token's scope does not cover the audience.")
    return Grant(audience, rule.rights, expires_at)


def path_of(uri: str) -> str:
    """The path of an audience or scope: no scheme, host, port, query, letter case or slashes.

    The host is not compared: one server has one namespace, under any name.
    """
    _, scheme, rest = uri.partition("://")
    without_scheme = rest if scheme else uri
    _, _, path = without_scheme.partition("/")
    path = path.partition("?")[0]
    return unquote(path).strip("/").casefold()


def covers(scope: str, path: str) -> bool:
    """Whether `path` is `scope` or below it; both are from `path_of`."""
    return not scope or path == scope or path.startswith(scope + "/")


def _rule_for(audience: str, name: str, find_rule: FindRule) -> SasRule | None:
    """The rule of the entity, else of what it belongs to, else of the namespace."""
    path = audience
    while True:
        rule = find_rule(path, name)
        if rule is not None or not path:
            return rule
        path = path.rpartition("/")[0]


def _signed(token: SasToken, rule: SasRule) -> bool:
    """SDKs sign the scope in the very letters that they send, quoted as they like it.

    Clients written by hand often sign it unquoted, or in lower case.
    """
    decoded = unquote_plus(token.resource)
    texts = dict.fromkeys((token.resource, decoded, token.resource.lower(), decoded.lower()))
    good = False
    for key in (rule.primary_key, rule.secondary_key):
        if key:
            for text in texts:
                good |= _matches(key, f"{text}\n{token.expiry}", token.signature)
    return good


def _matches(key: str, text: str, signature: str) -> bool:
    mac = hmac.new(key.encode(), text.encode("utf-8", "surrogatepass"), hashlib.sha256).digest()
    try:
        given = base64.b64decode(signature, validate=True)
    except (binascii.Error, ValueError):
        return False
    return hmac.compare_digest(mac, given)


def _expiry(text: str) -> Timestamp:
    """Seconds since 1970; SDKs send whole ones, some hand-written clients a fraction."""
    whole = text.partition(".")[0]
    if not (whole.isascii() and whole.isdigit() and len(whole) <= 15):
        raise _refused(malformed, "The token's expiry is not a number.")
    return Timestamp(min(int(whole) * ticks_per_second, timestamp_never))


def _refused(code: str, message: str) -> Refused:
    return Refused(code, message=message)
