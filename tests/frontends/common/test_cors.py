"""Cross-origin rules (Azure: 'Cross-Origin Resource Sharing support')."""

import pytest

from etagere.base.errors import Refused
from etagere.frontends.common import cors
from etagere.frontends.common.message import EmptyBody, Request, Response
from etagere.services.common.service_properties import CorsRule

one = CorsRule(("https://a.example",), ("GET", "PUT"), ("x-ms-meta-*", "accept"), ("x-ms-*",), 60)
wide = CorsRule(("*",), ("GET", "DELETE"), ("*",), ("x-ms-request-id",), 5)
sub = CorsRule(("https://*.b.example",), ("POST",), (), (), 0)


def request(method: str = "GET", **headers: str) -> Request:
    lowered = {name.replace("_", "-").lower(): value for name, value in headers.items()}
    return Request(
        method=method, raw_path="/x", raw_query="", headers=lowered, body=EmptyBody()
    )  # fmt: skip


def preflight(origin: str, method: str, wanted: str | None = None) -> Request:
    headers = {"Origin": origin, "Access-Control-Request-Method": method}
    if wanted is not None:
        headers["Access-Control-Request-Headers"] = wanted
    return request("OPTIONS", **headers)


def test_a_preflight_that_matches() -> None:
    reply = cors.preflight(preflight("https://a.example", "PUT", "x-ms-meta-a, Accept"), [one])
    assert reply.status == 200
    assert reply.headers == {
        "Access-Control-Allow-Origin": "https://a.example",
        "Access-Control-Allow-Credentials": "true",
        "Access-Control-Allow-Methods": "PUT",
        "Access-Control-Allow-Headers": "x-ms-meta-a, Accept",
        "Access-Control-Max-Age": "60",
    }


def test_a_star_has_no_credentials() -> None:
    reply = cors.preflight(preflight("https://any.example", "DELETE"), [one, wide])
    assert reply.headers["Access-Control-Allow-Origin"] == "*"
    assert "Access-Control-Allow-Credentials" not in reply.headers


@pytest.mark.parametrize(
    ("origin", "method", "wanted", "rules"),
    [
        ("https://a.example", "PUT", None, []),
        ("https://A.example", "PUT", None, [one]),
        ("http://a.example", "PUT", None, [one]),
        ("https://a.example:8080", "PUT", None, [one]),
        ("https://a.example", "DELETE", None, [one]),
        ("https://a.example", "PUT", "x-other", [one]),
        # The first rule that fits origin and method decides alone.
        ("https://a.example", "GET", "x-other", [one, wide]),
        ("https://b.example", "POST", None, [sub]),
        ("https://x.b.example.evil", "POST", None, [sub]),
    ],
)
def test_preflights_that_do_not_match(origin, method, wanted, rules) -> None:
    with pytest.raises(Refused, match="CorsPreflightFailure"):
        cors.preflight(preflight(origin, method, wanted), rules)


@pytest.mark.parametrize(
    "headers",
    [
        {"Access-Control-Request-Method": "GET"},
        {"Origin": "https://a.example"},
        {"Origin": "https://a.example", "Access-Control-Request-Method": "NONSENSE"},
    ],
)
def test_preflights_that_are_none(headers: dict[str, str]) -> None:
    with pytest.raises(Refused, match="InvalidHeaderValue"):
        cors.preflight(request("OPTIONS", **headers), [one])


def test_subdomains() -> None:
    assert cors.preflight(preflight("https://x.y.b.example", "POST"), [sub]).status == 200


def test_an_actual_request_gets_what_the_rule_exposes() -> None:
    reply = Response(200, {"x-ms-request-id": "1", "ETag": "2", "x-ms-version": "3"})
    cors.decorate(request(Origin="https://a.example"), reply, [one])
    assert reply.headers["Access-Control-Allow-Origin"] == "https://a.example"
    assert reply.headers["Access-Control-Expose-Headers"] == "x-ms-request-id,x-ms-version"
    assert reply.headers["Vary"] == "Origin"


def test_everything_that_is_exposed_does_not_name_the_rules_own_headers() -> None:
    rule = CorsRule(("*",), ("GET",), (), ("*",), 60)
    reply = Response(200, {"ETag": "2", "Content-Type": "text/plain"})
    cors.decorate(request(Origin="https://a.example"), reply, [rule])
    assert reply.headers["Access-Control-Expose-Headers"] == "ETag"


@pytest.mark.parametrize("headers", [{}, {"Origin": "https://other.example"}])
def test_caches_are_told_also_where_nothing_matched(headers: dict[str, str]) -> None:
    reply = Response(200)
    cors.decorate(request(**headers), reply, [one])
    assert reply.headers == {"Vary": "Origin"}
    reply = Response(200)
    cors.decorate(request("PUT", **headers), reply, [one])
    assert reply.headers == {}


def test_without_rules_nothing_is_said() -> None:
    reply = Response(200)
    cors.decorate(request(Origin="https://a.example"), reply, [])
    assert reply.headers == {}
