"""Claims-based security: tokens put to `$cbs` ("AMQP Claims-based Security", put-token)."""

from typing import Final

from etagere.auth.bus_sas import FindRule, Grant, listen, manage, path_of, prefix, send, verify
from etagere.base.clock import Timestamp, timestamp_never
from etagere.base.errors import Refused
from etagere.frontends.bus_amqp import errors
from etagere.frontends.bus_amqp.grants import Grants
from etagere.frontends.bus_amqp.requests import Request, Response
from etagere.frontends.bus_amqp.routes import address_chars_max, management_node
from etagere.protocols.amqp.values import Int
from etagere.services.bus.broker import Broker

operation: Final = "put-token"
accepted_status: Final = 202


class TokenPolicy:
    """How a server takes tokens."""

    __slots__ = ("check", "find_rule", "trust_bearer")

    def __init__(
        self, find_rule: FindRule, *, check: bool = True, trust_bearer: bool = False
    ) -> None:
        self.find_rule = find_rule
        self.check = check
        """False: nobody needs a token, and any is good."""
        self.trust_bearer = trust_bearer
        """Any bearer token is good, as emulators have it; otherwise none is."""


def put_token(
    request: Request,
    grants: Grants,
    policy: TokenPolicy,
    broker: Broker,
    now: Timestamp,
    speaker: errors.Speaker,
) -> Response:
    try:
        grant = _grant(request, policy, broker, now)
    except Refused as refused:
        status = _statuses.get(refused.code, 401)
        text = refused.message or refused.code
        if status == 401:
            text = f"{refused.code}: {text}"
        return _reply(status, speaker.describe(text))
    if not grants.add(grant):
        return _reply(403, speaker.describe("The connection has too many tokens."))
    return _reply(accepted_status, "Accepted")


_missing_name: Final = "MissingName"
_unknown_operation: Final = "UnknownOperation"
_statuses: Final = {
    errors.not_found: 404,
    _missing_name: 400,
    _unknown_operation: 501,
}


def _grant(request: Request, policy: TokenPolicy, broker: Broker, now: Timestamp) -> Grant:
    if request.operation != operation:
        raise Refused(_unknown_operation, message="The operation is unknown.")
    name = request.application.get("name")
    if not isinstance(name, str) or len(name) > address_chars_max:
        raise Refused(_missing_name, message="The request names no audience.")
    audience = path_of(name)
    entity = entity_of(audience)
    if entity:
        broker.resolve(entity)
    token = request.body
    if isinstance(token, bytes):
        token = token.decode("utf-8", "replace")
    if not isinstance(token, str):
        raise Refused("MalformedToken", message="The request holds no token.")
    if not policy.check:
        return Grant(audience, frozenset((manage, send, listen)), timestamp_never)
    # The type is no help: the Python SDK calls a shared access signature a `jwt`.
    if token.startswith(prefix):
        return verify(token, audience, policy.find_rule, now)
    if policy.trust_bearer:
        return Grant(audience, frozenset((manage, send, listen)), timestamp_never)
    raise Refused("InvalidIssuer", message="Tokens of this kind are not accepted.")


def entity_of(path: str) -> str:
    """The entity (or its sub-queue) that a path below one is about; nothing for the namespace."""
    for suffix in ("$cbs", management_node):
        if path == suffix:
            return ""
        path = path.removesuffix("/" + suffix)
    return path


def _reply(status: int, description: str) -> Response:
    return Response({"status-code": Int(status), "status-description": description}, "")
