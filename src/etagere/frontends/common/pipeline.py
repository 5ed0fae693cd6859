"""The way that every storage request goes, whatever its service.

    address -> version -> authentication -> operation -> authorization -> handler -> reply

A service brings a `Service`: how its paths are read, its table of operations, its error table and
the few things that only it knows (stored access policies, public access).  Nothing raises out of
`Pipeline.handle` but `ClientGone`: every other failure is a reply.
"""

import logging
from collections.abc import Awaitable, Mapping, Sequence
from typing import Final, Generic, Protocol, TypeVar

from etagere.auth.failure import unauthenticated
from etagere.auth.identity import anonymous
from etagere.auth.need import PublicAccess, authorize
from etagere.auth.stored_policy import StoredPolicy
from etagere.base.clock import Clock
from etagere.base.entropy import Entropy
from etagere.base.errors import Refused, invalid_header, invalid_query
from etagere.base.faults import Faults
from etagere.extents.contract import ExtentGone
from etagere.frontends.common import cors, errors, versions
from etagere.frontends.common.addressing import Address, resolve
from etagere.frontends.common.authentication import Authenticator, resource_name
from etagere.frontends.common.call import Call, Target
from etagere.frontends.common.errors import WireError
from etagere.frontends.common.message import ClientGone, Request, Response
from etagere.frontends.common.operations import Operation, OperationTable, Resource
from etagere.kernel.dates import format_http_date, format_iso
from etagere.kernel.etag import bare
from etagere.kv.contract import LimitExceeded, StoreClosed, StoreFull
from etagere.services.common.accounts import Account, AccountDirectory
from etagere.services.common.service_properties import CorsRule, ServiceProperties

C = TypeVar("C", bound=Call)

_log: Final = logging.getLogger(__name__)
client_request_id_chars_max: Final = 1024

_repeated_codes: Final = {"x-http-method": "XMethodIncorrectCount"}
"""Where a service has a code of its own for a header that came twice."""
etags_quoted_since: Final = "2011-08-18"


class Service(Protocol[C]):
    """What a storage service brings to the pipeline."""

    name: str
    """blob, queue, table, file"""
    letter: str
    """b, q, t, f: the service in an account SAS"""
    server: str
    """The `Server` header's value"""
    operations: OperationTable[C]
    errors: Mapping[str, WireError]

    def locate(self, address: Address, request: Request) -> Target: ...

    def call(
        self,
        request: Request,
        request_id: str,
        account: Account,
        target: Target,
        *,
        secondary: bool,
        endpoint: str,
    ) -> C: ...

    def properties(self, account: Account) -> Awaitable[ServiceProperties]: ...

    async def stored_policies(self, call: C) -> Sequence[StoredPolicy]:
        """The stored access policies of the container that the target names."""
        ...

    async def public_access(self, call: C) -> PublicAccess:
        """How far the container that the target names is open to everybody."""
        ...

    def refusal(self, refused: Refused, error: WireError, call: C | None) -> tuple[str, bytes]:
        """The content type and body of an error."""
        ...


class Pipeline(Generic[C]):
    def __init__(
        self,
        service: Service[C],
        *,
        accounts: AccountDirectory,
        authenticator: Authenticator,
        clock: Clock,
        entropy: Entropy,
        faults: Faults,
        strict_versions: bool = False,
    ) -> None:
        self._service = service
        self._accounts = accounts
        self._authenticator = authenticator
        self._clock = clock
        self._entropy = entropy
        self._faults = faults
        self._strict = strict_versions
        self._errors: Mapping[str, WireError] = {**errors.common, **service.errors}

    async def handle(self, request: Request) -> Response:
        request_id = self._entropy.uuid()
        call: C | None = None
        rules: Sequence[CorsRule] = ()
        try:
            call = self._locate(request, request_id)
            call.properties = await self._service.properties(call.account)
            website = call.target.resource is Resource.WEBSITE
            if request.method == "OPTIONS" and not website:
                call.operation_name = "Preflight"
                response = cors.preflight(request, call.properties.cors)
            else:
                rules = () if website else call.properties.cors
                response = await self._perform(call)
        except ClientGone:
            raise
        except Exception as error:  # noqa: BLE001 - the one boundary where every failure is a reply
            response = self._failed(error, call, request_id, request)
        self._finish(request, response, call, request_id)
        if rules:
            cors.decorate(request, response, rules)
        return response

    def _locate(self, request: Request, request_id: str) -> C:
        if request.repeated_headers:
            name = min(request.repeated_headers)
            code = _repeated_codes.get(name, "InvalidInput")
            raise Refused(code if code in self._errors else "InvalidInput", {"HeaderName": name})
        address = resolve(request.host, request.raw_path)
        account = self._accounts.find(address.account)
        if account is None:
            code = "AuthenticationFailed" if _has_credentials(request) else "ResourceNotFound"
            raise Refused(code)
        call = self._service.call(
            request,
            request_id,
            account,
            self._service.locate(address, request),
            secondary=address.secondary,
            endpoint=_endpoint(request, address),
        )
        call.inner = self
        return call

    def locate(self, request: Request) -> C:
        return self._locate(request, self._entropy.uuid())

    async def admit(self, request: Request) -> C:
        """Let a request inside another one in, up to the handler."""
        call = self._locate(request, self._entropy.uuid())
        call.properties = await self._service.properties(call.account)
        await self._admit(call)
        return call

    async def _perform(self, call: C) -> Response:
        operation = await self._admit(call)
        self._faults.reach("before_operation", operation.name)
        response = await operation.handler(call)
        self._faults.reach("before_reply", operation.name)
        return response

    async def _admit(self, call: C) -> Operation[C]:
        request, service = call.request, self._service
        self._choose_version(call)
        name = resource_name(call, service.letter)
        call.identity = self._authenticator.recall(
            call, name
        ) or await self._authenticator.identify(call, service)
        try:
            operation = service.operations.find(request, call.target.resource)
        except Refused:
            if call.identity is anonymous and call.target.resource is not Resource.WEBSITE:
                # Who may do nothing is not told what there is to do.
                raise unauthenticated(
                    call.version, request.method, service=service.letter
                ) from None
            raise
        call.operation_name = operation.name
        _check_timeout(request)
        if call.version and call.version < operation.since:
            raise invalid_header("x-ms-version", call.version)
        open_to_all = (
            await service.public_access(call) if call.identity is anonymous else PublicAccess.NONE
        )
        call.grant = authorize(
            call.identity,
            operation.need,
            name,
            public_access=open_to_all,
            version=call.version,
            method=request.method,
        )
        return operation

    def _choose_version(self, call: C) -> None:
        """The header, else `api-version`, else `sv` (for a SAS), else the service's default."""
        request = call.request
        wanted = request.headers.get("x-ms-version")
        if wanted is None:
            wanted = request.implied_version or request.query.get("api-version")
        if wanted is None and "sig" in request.query:
            wanted = request.query.get("sv")
        if wanted is None:
            wanted = call.properties.default_version
        if wanted is not None:
            call.version = versions.choose(wanted, strict=self._strict)
        elif "authorization" in request.headers:
            raise versions.missing_version()

    def _failed(
        self, error: Exception, call: C | None, request_id: str, request: Request
    ) -> Response:
        refused = _refusal_of(error)
        wire = self._errors.get(refused.code)
        if wire is None:
            _log.error("no row for error code %s", refused.code, extra={"request_id": request_id})
            wire = WireError(500, "The server encountered an internal error.")
        if wire.status >= 500 and not isinstance(error, Refused):
            _note_failure(error, refused.code, request_id)
        if refused.message is not None:
            wire = wire._replace(message=refused.message)
        status = wire.status if refused.status is None else refused.status
        headers = dict(refused.headers)
        headers["x-ms-error-code"] = refused.code
        response = Response(status, headers)
        response.reason = wire.message
        if request.method != "HEAD" and status != 304:
            stamped = wire._replace(
                message=f"{wire.message}\nRequestId:{request_id}\nTime:{self._iso_now()}"
            )
            content_type, body = self._service.refusal(refused, stamped, call)
            headers["Content-Type"] = content_type
            response.body = body
        return response

    def _iso_now(self) -> str:
        return format_iso(self._clock.now())

    def _finish(
        self, request: Request, response: Response, call: C | None, request_id: str
    ) -> None:
        headers = response.headers
        headers["Server"] = self._service.server
        headers["x-ms-request-id"] = request_id
        if call is not None and call.version:
            headers["x-ms-version"] = call.version
            if call.version < etags_quoted_since and "ETag" in headers:
                headers["ETag"] = bare(headers["ETag"])
        sent = request.headers.get("x-ms-client-request-id")
        if (
            sent
            and len(sent) <= client_request_id_chars_max
            and sent.isprintable()
            and sent.isascii()
        ):
            headers["x-ms-client-request-id"] = sent
        headers["Date"] = format_http_date(self._clock.now())
        response.operation = call.operation_name if call is not None else ""
        response.context = call


def _check_timeout(request: Request) -> None:
    timeout = request.query.get("timeout")
    if timeout is not None and not (timeout.isdecimal() and timeout.isascii()):
        raise invalid_query("timeout", timeout, "The value must be a whole number of seconds.")


def _has_credentials(request: Request) -> bool:
    return "authorization" in request.headers or "sig" in request.query


def _endpoint(request: Request, address: Address) -> str:
    scheme = "https" if request.secure else "http"
    if address.host_style:
        return f"{scheme}://{request.host}/"
    suffix = "-secondary" if address.secondary else ""
    return f"{scheme}://{request.host}/{address.account}{suffix}/"


def _note_failure(error: Exception, code: str, request_id: str) -> None:
    """A full disk fails every write: that is a line each, and no traceback."""
    if code == "InternalError":
        _log.error("request failed", exc_info=error, extra={"request_id": request_id})
    else:
        told = {"code": code, "why": str(error), "request_id": request_id}
        _log.warning("request not served", extra=told)


def _refusal_of(error: Exception) -> Refused:
    """What a failure is on the wire; what nobody foresaw is an internal error, and logged."""
    match error:
        case Refused():
            return error
        case StoreFull():
            return Refused("InsufficientStorage")
        case LimitExceeded():
            return Refused("RequestBodyTooLarge")
        case StoreClosed() | ExtentGone():
            # The latter is an upload that a reset overtook: nothing is wrong with sending it again.
            return Refused("ServerBusy")
        case _:
            return Refused("InternalError")
