"""The broker's conditions as HTTP errors of the administration API (Service Bus REST, errors)."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from etagere.base.clock import Clock
from etagere.base.entropy import Entropy
from etagere.base.errors import Refused
from etagere.frontends.common import xml
from etagere.frontends.common.message import ClientGone, Request, Response
from etagere.kernel.dates import format_iso_seconds
from etagere.services.bus import errors

_log: Final = logging.getLogger(__name__)


class HttpError(NamedTuple):
    status: int
    subcode: int


unauthorized: Final = "Unauthorized"
bad_request: Final = "BadRequest"
method_not_allowed: Final = "MethodNotAllowed"

table: Final[Mapping[str, HttpError]] = {
    bad_request: HttpError(400, 40000),
    "InvalidUri": HttpError(400, 40000),
    "InvalidXmlDocument": HttpError(400, 40000),
    "RequestBodyTooLarge": HttpError(400, 40000),
    "com.microsoft:argument-error": HttpError(400, 40000),
    "com.microsoft:argument-out-of-range": HttpError(400, 40000),
    "com.microsoft:entity-disabled": HttpError(400, 40000),
    "com.microsoft:timeout": HttpError(504, 50004),
    "com.microsoft:server-busy": HttpError(503, 50002),
    "com.microsoft:container-close": HttpError(503, 50002),
    "com.microsoft:entity-already-exists": HttpError(409, 40900),
    "com.microsoft:message-lock-lost": HttpError(404, 40400),
    "com.microsoft:message-not-found": HttpError(404, 40400),
    "com.microsoft:session-lock-lost": HttpError(404, 40400),
    "com.microsoft:no-matching-subscription": HttpError(400, 40000),
    "amqp:invalid-field": HttpError(400, 40000),
    "amqp:decode-error": HttpError(400, 40000),
    "amqp:not-allowed": HttpError(400, 40000),
    "amqp:not-found": HttpError(404, 40400),
    "amqp:not-implemented": HttpError(501, 50100),
    "amqp:resource-limit-exceeded": HttpError(403, 40300),
    "amqp:link:message-size-exceeded": HttpError(403, 40300),
    method_not_allowed: HttpError(405, 40500),
    unauthorized: HttpError(401, 40100),
}
_token_errors: Final = frozenset(
    {
        "InvalidSignature",
        "ExpiredToken",
        "MalformedToken",
        "UnknownKey",
        "InvalidAudience",
        "InvalidIssuer",
    }
)
_internal: Final = HttpError(500, 50000)


def http_error(refused: Refused) -> HttpError:
    if refused.code in _token_errors:
        return table[unauthorized]
    if refused.details.get("SubCode") == "40301":
        return HttpError(403, 40301)
    return table.get(refused.code, _internal)


class Speaker:
    """Adds to each text what the service adds: a tracking id, the system and the time."""

    def __init__(self, clock: Clock, entropy: Entropy) -> None:
        self._clock = clock
        self._entropy = entropy

    async def reply(
        self, request: Request, perform: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        """What comes of performing it; a failure is a reply too."""
        try:
            return await perform(request)
        except ClientGone:
            raise
        except Refused as refused:
            return self._refusal(refused, request)
        except Exception:  # noqa: BLE001 - the boundary where every failure is a reply
            _log.exception("request failed")
            return self._refusal(
                Refused(errors.internal_error, message="The server failed."), request
            )

    def _refusal(self, refused: Refused, request: Request) -> Response:
        error = http_error(refused)
        text = refused.message or refused.code
        detail = (
            f"SubCode={error.subcode}. {text} TrackingId:{self._entropy.uuid()}_G0, "
            f"SystemTracker:{request.host}:{request.raw_path}, Timestamp:{format_iso_seconds(self._clock.now())}"
        )
        body = (
            f"<Error><Code>{error.status}</Code>"
            f"<Detail>{xml.escape(_representable(detail))}</Detail></Error>"
        )
        response = Response(
            error.status, {"Content-Type": "application/xml; charset=utf-8"}, body.encode()
        )
        if error.status == 401:
            response.headers["WWW-Authenticate"] = 'SharedAccessSignature realm="etagere"'
        return response


def _representable(text: str) -> str:
    if xml.is_representable(text):
        return text
    return "".join(char if xml.is_representable(char) else "\ufffd" for char in text)
