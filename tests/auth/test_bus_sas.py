import base64
import hashlib
import hmac
from urllib.parse import quote, quote_plus

import pytest
from azure.servicebus._pyamqp.utils import generate_sas_token as sdk_token
from hypothesis import given
from hypothesis import strategies as st

from etagere.auth.bus_sas import (
    Grant,
    SasRule,
    covers,
    listen,
    manage,
    parse_token,
    path_of,
    send,
    verify,
)
from etagere.base.clock import Timestamp, seconds, timestamp_never
from etagere.base.errors import Refused

now = Timestamp(seconds(1_700_000_000))
root = SasRule("RootManageSharedAccessKey", frozenset((manage, send, listen)), "SAS_KEY_VALUE")
sender = SasRule("sender", frozenset((send,)), "first", "second")
rules = {("", root.name): root, ("topic", sender.name): sender}


def find_rule(path: str, name: str) -> SasRule | None:
    return rules.get((path, name))


def token(
    resource: str,
    *,
    key: str = "SAS_KEY_VALUE",
    name: str = root.name,
    expiry: str = "1700003600",
    signed: str | None = None,
    order: str = "sr sig se skn",
) -> str:
    text = f"{resource if signed is None else signed}\n{expiry}"
    mac = hmac.new(key.encode(), text.encode(), hashlib.sha256).digest()
    fields = {
        "sr": resource,
        "sig": quote_plus(base64.b64encode(mac)),
        "se": expiry,
        "skn": name,
    }
    return "SharedAccessSignature " + "&".join(f"{one}={fields[one]}" for one in order.split())


scope = "sb%3A%2F%2Flocalhost%3A5672%2Fq1"


@pytest.mark.parametrize(
    "text",
    [
        token(scope),
        token(scope, order="sig se skn sr"),
        token(scope.lower()),
        token("sb%3a%2f%2flocalhost%3a5672%2fq1"),
        token(scope, signed="sb://localhost:5672/q1"),
        token("sb%3A%2F%2FLocalhost%2FQ1", signed="sb://localhost/q1"),
        token("sb://localhost/q1"),
        token("sb%3A%2F%2Flocalhost%2F"),
        token("localhost%3A5300"),
        token(scope, expiry="1700003600.5"),
    ],
)
def test_good_tokens(text: str) -> None:
    grant = verify(text, "q1", find_rule, now)
    assert grant == Grant("q1", root.rights, Timestamp(seconds(1_700_003_600)))


def test_the_sdk_s_own_token() -> None:
    text = sdk_token("sb://localhost:5672/q1", root.name, "SAS_KEY_VALUE", 1_700_003_600)
    if isinstance(text, bytes):
        text = text.decode()
    assert verify(text, "q1", find_rule, now).rights == root.rights


@pytest.mark.parametrize("key", ["first", "second"])
def test_rules_of_a_parent_count_below_it(key: str) -> None:
    text = token("sb%3A%2F%2Fh%2Ftopic", key=key, name="sender")
    grant = verify(text, "topic/subscriptions/sub", find_rule, now)
    assert grant.allows(send, "topic/subscriptions/sub/$management")
    assert not grant.allows(listen, "topic/subscriptions/sub")
    assert not grant.allows(send, "topic")


@pytest.mark.parametrize(
    ("text", "audience", "code"),
    [
        (token(scope, key="wrong"), "q1", "InvalidSignature"),
        (token(scope, signed="sb://localhost:5672/q2"), "q1", "InvalidSignature"),
        (token(scope).replace("sig=", "sig=%21"), "q1", "InvalidSignature"),
        (token(scope, expiry="1700000000"), "q1", "ExpiredToken"),
        (token(scope, name="nobody"), "q1", "UnknownKey"),
        (token("sb%3A%2F%2Fh%2Fq1", key="first", name="sender"), "q1", "UnknownKey"),
        (token(scope), "q2", "InvalidAudience"),
        (token(scope), "q11", "InvalidAudience"),
        (token(scope), "", "InvalidAudience"),
        (token(scope, expiry="soon"), "q1", "MalformedToken"),
        (token(scope, expiry="-1"), "q1", "MalformedToken"),
        (token(scope, expiry="9" * 400), "q1", "MalformedToken"),
        (token(scope, order="sr sig se"), "q1", "MalformedToken"),
        (token(scope) + "&se=1", "q1", "MalformedToken"),
        (token(scope) + "&x", "q1", "MalformedToken"),
        ("Bearer x", "q1", "MalformedToken"),
        ("", "q1", "MalformedToken"),
        ("SharedAccessSignature " + "x" * 9_000, "q1", "MalformedToken"),
    ],
)
def test_bad_tokens(text: str, audience: str, code: str) -> None:
    with pytest.raises(Refused) as caught:
        verify(text, audience, find_rule, now)
    assert caught.value.code == code


def test_a_token_for_ever() -> None:
    text = token(scope, expiry="99999999999999")
    assert verify(text, "q1", find_rule, now).expires_at == timestamp_never


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("sb://localhost:5672/q1", "q1"),
        ("amqps://Host/Topic/Subscriptions/Sub/", "topic/subscriptions/sub"),
        ("amqp://host/a%2Fb/$management", "a/b/$management"),
        ("sb://host/", ""),
        ("sb://host", ""),
        ("localhost:5300", ""),
        ("localhost:5300/q", "q"),
        ("https://host/q?api-version=2021-05", "q"),
    ],
)
def test_paths(uri: str, path: str) -> None:
    assert path_of(uri) == path


@pytest.mark.parametrize(
    ("scope", "path", "covered"),
    [
        ("", "q", True),
        ("q", "q", True),
        ("q", "q/$management", True),
        ("q", "q2", False),
        ("q/x", "q", False),
    ],
)
def test_scopes(scope: str, path: str, covered: bool) -> None:
    assert covers(scope, path) is covered


def test_keys_of_plain_logins() -> None:
    assert sender.has_key("first")
    assert sender.has_key("second")
    assert not sender.has_key("")
    assert not root.has_key("")
    assert not root.has_key("SAS_KEY_VALU")
    assert root.allows(listen)
    assert not sender.allows(listen)


@given(st.text(max_size=200))
def test_whatever_a_token_is(text: str) -> None:
    for candidate in (text, "SharedAccessSignature " + text, token(quote(text, errors="replace"))):
        try:
            verify(candidate, "q1", find_rule, now)
        except Refused:
            continue


def test_parts() -> None:
    assert parse_token(token("a%20b", name="n%20n")).rule_name == "n n"
