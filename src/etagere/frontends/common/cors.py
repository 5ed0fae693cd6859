"""Cross-origin rules: which one applies, and what it puts on a response (Azure: 'CORS support')."""

from collections.abc import Iterable, Sequence
from typing import Final

from etagere.base.errors import Refused, invalid_header
from etagere.frontends.common.message import Request, Response
from etagere.services.common.service_properties import CorsRule

_methods: Final = frozenset({"DELETE", "GET", "HEAD", "MERGE", "PATCH", "POST", "OPTIONS", "PUT"})
_simple_exposed: Final = frozenset(
    {"cache-control", "content-language", "content-type", "expires", "last-modified", "pragma"}
)


def preflight(request: Request, rules: Sequence[CorsRule]) -> Response:
    """Answer OPTIONS.  The resource need not exist and nobody is authenticated."""
    origin = request.headers.get("origin", "")
    method = request.headers.get("access-control-request-method", "")
    if not origin:
        raise invalid_header("Origin", origin)
    if method.upper() not in _methods:
        raise invalid_header("Access-Control-Request-Method", method)
    wanted = request.headers.get("access-control-request-headers")
    rule = matching(rules, origin, method.upper())
    if rule is None or not _allows_headers(rule, wanted):
        raise Refused("CorsPreflightFailure")
    headers = {
        **_allow_origin(rule, origin),
        "Access-Control-Allow-Methods": method,
        "Access-Control-Max-Age": str(rule.max_age_seconds),
    }
    if wanted:
        headers["Access-Control-Allow-Headers"] = wanted
    return Response(200, headers)


def decorate(request: Request, response: Response, rules: Sequence[CorsRule]) -> None:
    """Add what an actual request earns; it never fails because of its origin."""
    if not rules:
        return
    origin = request.headers.get("origin")
    rule = matching(rules, origin, request.method) if origin else None
    if rule is not None and origin:
        exposed = _exposed(rule, response.headers)
        response.headers.update(_allow_origin(rule, origin))
        if exposed:
            response.headers["Access-Control-Expose-Headers"] = ",".join(exposed)
    if request.method in ("GET", "HEAD") and (rule is None or "*" not in rule.origins):
        response.headers["Vary"] = "Origin"


def matching(rules: Sequence[CorsRule], origin: str, method: str) -> CorsRule | None:
    """The first rule whose origin and method both match; its headers then decide alone."""
    for rule in rules:
        if method in rule.methods and any(_origin_matches(o, origin) for o in rule.origins):
            return rule
    return None


def _origin_matches(pattern: str, origin: str) -> bool:
    if pattern in ("*", origin):
        return True
    scheme, star, rest = pattern.partition("*.")
    return bool(star) and origin.startswith(scheme) and origin.endswith("." + rest)


def _allows_headers(rule: CorsRule, wanted: str | None) -> bool:
    if not wanted:
        return True
    return all(
        any(_header_matches(pattern, name.strip()) for pattern in rule.allowed_headers)
        for name in wanted.split(",")
        if name.strip()
    )


def _header_matches(pattern: str, name: str) -> bool:
    pattern, name = pattern.lower(), name.lower()
    if pattern.endswith("*"):
        return name.startswith(pattern[:-1])
    return pattern == name


def _allow_origin(rule: CorsRule, origin: str) -> dict[str, str]:
    if "*" in rule.origins:
        return {"Access-Control-Allow-Origin": "*"}
    return {"Access-Control-Allow-Origin": origin, "Access-Control-Allow-Credentials": "true"}


def _exposed(rule: CorsRule, present: Iterable[str]) -> list[str]:
    """Exposed names; a prefix stands for the headers that this response has."""
    names: dict[str, None] = {}
    for pattern in rule.exposed_headers:
        if not pattern.endswith("*"):
            names[pattern] = None
            continue
        for name in present:
            if _header_matches(pattern, name) and name.lower() not in _simple_exposed:
                names[name] = None
    return list(names)
