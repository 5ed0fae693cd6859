"""Messages over plain HTTP/1.1."""

import base64
import hashlib
import hmac
import http.client
import json
import time
import uuid
from urllib.parse import quote_plus, urlsplit

import pytest

from etagere.auth.bus_sas import SasRule
from etagere.protocols.amqp.sections import section
from etagere.services.bus.descriptions import QueueDescription, Tier, TopicDescription
from etagere.services.bus.descriptions import SubscriptionDescription as Subscription
from etagere.services.bus.messages import Message
from etagere.services.bus.sections import AmqpSections

from .conftest import Namespace, listener, root


def sign(scope: str, rule: SasRule) -> str:
    """A token for a scope, which is quoted already."""
    expiry = str(int(time.time()) + 600)
    mac = hmac.new(rule.primary_key.encode(), f"{scope}\n{expiry}".encode(), hashlib.sha256)
    signature = quote_plus(base64.b64encode(mac.digest()))
    return f"SharedAccessSignature sr={scope}&sig={signature}&se={expiry}&skn={rule.name}"


class Caller:
    def __init__(self, namespace: Namespace, rule=root) -> None:
        self._namespace = namespace
        self._rule = rule

    def __call__(self, method: str, path: str, body: str | bytes | None = None, **headers: str):
        scope = quote_plus(f"http://localhost:{self._namespace.plain_port}{urlsplit(path).path}")
        token = sign(scope, self._rule)
        client = http.client.HTTPConnection("127.0.0.1", self._namespace.plain_port, timeout=20)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        client.request(method, path, body, {"Authorization": token, **sent})
        reply = client.getresponse()
        reply.content = reply.read()
        client.close()
        return reply


@pytest.fixture
def call(namespace: Namespace) -> Caller:
    create = namespace.broker.administration.create
    namespace.run(lambda: create(QueueDescription(name="Orders")))
    return Caller(namespace)


def test_a_message_goes_through(call: Caller) -> None:
    said = json.dumps({"MessageId": "m1", "Label": "l", "TimeToLive": 100, "Unknown": 1})
    sent = call(
        "POST", "/orders/messages", b"\x00\xffbody", BrokerProperties=said,
        Content_Type="text/plain", Priority='"high"', Count="5", Good="true",
        When='"Sun, 06 Nov 1994 08:49:37 GMT"',
    )  # fmt: skip
    assert sent.status == 201
    got = call("POST", "/orders/messages/head?timeout=5")
    assert got.status == 201
    assert got.content == b"\x00\xffbody"
    assert got.headers["content-type"] == "text/plain"
    properties = json.loads(got.headers["BrokerProperties"])
    assert (properties["MessageId"], properties["Label"]) == ("m1", "l")
    assert (properties["DeliveryCount"], properties["SequenceNumber"]) == (1, 1)
    assert properties["TimeToLive"] == 100
    assert (got.headers["priority"], got.headers["count"], got.headers["good"]) == (
        '"high"', "5", "true",
    )  # fmt: skip
    assert got.headers["when"] == '"Sun, 06 Nov 1994 08:49:37 GMT"'
    location = urlsplit(got.headers["Location"]).path
    assert location.endswith(properties["LockToken"])
    assert call("POST", location).status == 200
    assert call("DELETE", location).status == 200
    gone = call("DELETE", location)
    assert gone.status == 404
    assert b"<Code>404</Code>" in gone.content
    assert call("DELETE", "/orders/messages/head?timeout=0").status == 204


def test_names_of_properties_keep_their_case(call: Caller, namespace: Namespace) -> None:
    call("POST", "/orders/messages", b"x", CustomerName='"Ann"')
    peeked = namespace.run(lambda: namespace.broker.peek("orders", 1, 1))
    properties = AmqpSections().application_properties(peeked[0].tail)
    assert properties == {"CustomerName": "Ann"}


def test_unlocking_gives_it_back(call: Caller) -> None:
    call("POST", "/orders/messages", "x")
    first = call("POST", "/orders/messages/head")
    assert call("PUT", urlsplit(first.headers["Location"]).path).status == 200
    again = call("DELETE", "/orders/messages/head")
    assert (again.status, again.content) == (200, b"x")
    assert json.loads(again.headers["BrokerProperties"])["DeliveryCount"] == 2


def test_a_lock_runs_out(call: Caller, namespace: Namespace) -> None:
    call("POST", "/orders/messages", "x")
    first = call("POST", "/orders/messages/head")
    namespace.advance(61)
    assert call("DELETE", urlsplit(first.headers["Location"]).path).status == 404
    assert call("POST", "/orders/messages/head").status == 201


def test_batches_are_all_or_nothing(call: Caller) -> None:
    kind = "application/vnd.microsoft.servicebus.json"
    items = [{"Body": f"b{n}", "BrokerProperties": {"Label": str(n)}, "UserProperties": {"n": n}}
             for n in range(3)]  # fmt: skip
    assert call("POST", "/orders/messages", json.dumps(items), Content_Type=kind).status == 201
    bodies = [call("DELETE", "/orders/messages/head").content for _ in range(3)]
    assert bodies == [b"b0", b"b1", b"b2"]
    for wrong in ("{}", "[]", "nonsense", '[{"Body": 5}]', '[{"Body": "a"}, 7]'):
        assert call("POST", "/orders/messages", wrong, Content_Type=kind).status == 400
    assert call("DELETE", "/orders/messages/head?timeout=0").status == 204


def test_topics_and_their_subscriptions(call: Caller, namespace: Namespace) -> None:
    administration = namespace.broker.administration
    namespace.run(lambda: administration.create(TopicDescription(name="news")))
    namespace.run(lambda: administration.create_subscription("news", Subscription(name="all")))
    assert call("POST", "/news/messages", "x").status == 201
    got = call("POST", "/news/subscriptions/all/messages/head")
    assert got.content == b"x"
    assert "/news/subscriptions/all/messages/" in got.headers["Location"]
    assert call("POST", "/news/messages/head?timeout=0").status == 400


@pytest.mark.parametrize(
    ("properties", "status"),
    [("{", 400), ("[]", 400), ('{"TimeToLive": -1}', 400), ('{"Label": []}', 400),
     ('{"ScheduledEnqueueTimeUtc": "soon"}', 400), ('{"TimeToLiveTimeSpan": "0:0:5"}', 201)],
)  # fmt: skip
def test_broker_properties_that_are_none(call: Caller, properties: str, status: int) -> None:
    assert call("POST", "/orders/messages", "x", BrokerProperties=properties).status == status


def test_locks_of_sessions_are_not_http_s(call: Caller, namespace: Namespace) -> None:
    namespace.run(
        lambda: namespace.broker.administration.create(
            QueueDescription(name="sessions", requires_session=True)
        )
    )
    path = "/sessions/messages/1/00000000-0000-0000-0000-000000000001"
    for method in ("DELETE", "PUT", "POST"):
        assert call(method, path).status == 404


def test_what_is_refused(call: Caller, namespace: Namespace) -> None:
    assert call("POST", "/nobody/messages", "x").status == 404
    assert call("POST", "/orders/messages", b"x" * (300 * 1024)).status == 403
    assert call("DELETE", f"/orders/messages/1/{uuid.uuid4()}").status == 404
    assert call("DELETE", "/orders/messages/1/nonsense").status == 400
    assert call("PATCH", "/orders/messages").status == 405
    assert Caller(namespace, listener)("POST", "/orders/messages", "x").status == 401


batch_kind = "application/vnd.microsoft.servicebus.json"


@pytest.mark.parametrize("batch", [False, True])
def test_a_message_s_bytes(call: Caller, namespace: Namespace, batch: bool) -> None:
    """As over AMQP: all of it counts, as it is stored (Service Bus, quotas)."""

    def send(length: int) -> int:
        body = "x" * length
        if not batch:
            return call("POST", "/orders/messages", body, Content_Type="text/plain").status
        items = json.dumps([{"Body": body}])
        return call("POST", "/orders/messages", items, Content_Type=batch_kind).status

    assert send(200_000) == 201
    (stored,) = namespace.run(lambda: namespace.broker.peek("orders", 1, 1))
    around = len(stored.tail) - 200_000
    assert send(262_144 - around) == 201
    for beyond in (262_145 - around, 1_000_000, 1_200_000, 3_000_000):
        assert send(beyond) == 403
    assert namespace.broker.administration.get("orders").counts.active == 2


@pytest.mark.parametrize("tier", [Tier.premium])
def test_http_takes_less_than_premium_does(call: Caller, namespace: Namespace) -> None:
    """One megabyte, whatever the entity takes over AMQP (Service Bus, quotas)."""
    create = namespace.broker.administration.create
    namespace.run(lambda: create(QueueDescription(name="large", max_message_kilobytes=10_240)))
    for length, status in ((1_048_000, 201), (1_048_577, 403), (2_000_000, 403)):
        assert call("POST", "/large/messages", b"x" * length).status == status
    assert namespace.broker.administration.get("large").counts.active == 1


def test_a_batch_s_bytes(call: Caller, namespace: Namespace) -> None:
    for length, status in ((100_000, 201), (140_000, 403)):
        items = json.dumps([{"Body": "x" * length}] * 2)
        assert call("POST", "/orders/messages", items, Content_Type=batch_kind).status == status
    assert namespace.broker.administration.get("orders").counts.active == 2


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"p": f'"{"x" * 32_768}"'}, 201),
        ({"p": f'"{"x" * 32_769}"'}, 403),
        ({"a": f'"{"x" * 32_700}"', "b": f'"{"x" * 32_700}"'}, 201),
        ({"a": f'"{"x" * 32_768}"', "b": f'"{"x" * 32_768}"'}, 403),
        ({"BrokerProperties": json.dumps({"MessageId": "x" * 128})}, 201),
        ({"BrokerProperties": json.dumps({"MessageId": "x" * 129})}, 400),
        ({"BrokerProperties": json.dumps({"SessionId": "x" * 128})}, 201),
        ({"BrokerProperties": json.dumps({"SessionId": "x" * 129})}, 400),
        ({"BrokerProperties": json.dumps({"PartitionKey": "x" * 128})}, 201),
        ({"BrokerProperties": json.dumps({"PartitionKey": "x" * 129})}, 400),
    ],
)
def test_properties_near_their_limits(call: Caller, headers: dict[str, str], status: int) -> None:
    assert call("POST", "/orders/messages", "x", **headers).status == status


def test_what_amqp_says_cannot_change_how_http_is_read(call: Caller, namespace: Namespace) -> None:
    """A property may have any name over AMQP, and a body any value."""

    def sent(application: dict[str, object], body: bytes) -> None:
        tail = section(0x74, application) + body
        message = Message(tail, len(tail))
        namespace.run(lambda: namespace.broker.send("orders", [message]))

    names = (
        "Transfer-Encoding", "content-length", "BrokerProperties", "Connection", "Location",
        "Set-Cookie", "Content-Type", "a b", "", "x:y", "é",
    )  # fmt: skip
    sent(dict.fromkeys(names, "chunked") | {"mine": "a\r\nInjected: yes"}, section(0x75, b"body"))
    got = call("DELETE", "/orders/messages/head?timeout=5")
    assert (got.status, got.content) == (200, b"body")
    assert got.getheader("mine") == '"a  Injected: yes"'
    assert got.getheader("Injected") is None
    assert json.loads(got.getheader("BrokerProperties"))["SequenceNumber"] == 1
    assert got.getheader("Content-Type").startswith("application/atom+xml")
    assert all(got.getheader(name) is None for name in ("Transfer-Encoding", "Set-Cookie"))
    # No Unicode: it is given as it came rather than lost.
    sent({}, b"\x00\x53\x77\xa1\x02\xff\xfe")
    got = call("DELETE", "/orders/messages/head?timeout=5")
    assert (got.status, got.content) == (200, b"\xa1\x02\xff\xfe")


# ---- what administration clients show beside their token


def described(kind: str, content: str) -> str:
    """The body of a request that creates an entity."""
    of = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
    return (
        '<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml">'
        f'<{kind}Description xmlns="{of}">{content}</{kind}Description></content></entry>'
    )


to_orders = described("Queue", "<ForwardTo>sb://localhost/orders</ForwardTo>")
dead_to_orders = described(
    "Queue", "<ForwardDeadLetteredMessagesTo>orders</ForwardDeadLetteredMessagesTo>"
)
forward_header, dead_letter_header = (
    "ServiceBusSupplementaryAuthorization", "ServiceBusDlqSupplementaryAuthorization",
)  # fmt: skip


@pytest.mark.parametrize(
    ("body", "header"), [(to_orders, forward_header), (dead_to_orders, dead_letter_header)]
)
def test_forwarding_needs_a_token_for_the_target(call: Caller, body: str, header: str) -> None:
    orders, others = quote_plus("sb://localhost/orders"), quote_plus("sb://localhost/others")
    forged = SasRule(root.name, root.rights, "OTHER")
    for token in ("nonsense", sign(orders, forged), sign(others, root), sign(orders, listener)):
        refused = call("PUT", "/forwarding", body, **{header: token})
        assert refused.status == 401, token
        assert b"SubCode=40100" in refused.content
    # JS signs the host alone; a client that shows no second token is believed.
    for name, tokens in (
        ("one", {header: sign(orders, root)}),
        ("two", {header: sign(quote_plus("localhost:5300"), root)}),
        ("three", {}),
    ):
        assert call("PUT", f"/{name}", body, **tokens).status == 201


def test_subscriptions_forward_with_a_token_too(call: Caller, namespace: Namespace) -> None:
    create = namespace.broker.administration.create
    namespace.run(lambda: create(TopicDescription(name="t")))
    body = described("Subscription", "<ForwardTo>orders</ForwardTo>")
    wrong = {forward_header: sign(quote_plus("sb://localhost/others"), root)}
    assert call("PUT", "/t/Subscriptions/s", body, **wrong).status == 401
    good = {forward_header: sign(quote_plus("sb://localhost/orders"), root)}
    assert call("PUT", "/t/Subscriptions/s", body, **good).status == 201


@pytest.mark.parametrize("kind", ["Queue", "Topic"])
def test_nobody_is_let_in_without_a_name(call: Caller, kind: str) -> None:
    open_to_all = "<IsAnonymousAccessible>true</IsAnonymousAccessible>"
    refused = call("PUT", "/open", described(kind, open_to_all))
    assert refused.status == 400
    assert b"There is no anonymous access" in refused.content
    closed = open_to_all.replace("true", "false")
    assert call("PUT", "/open", described(kind, closed)).status == 201
