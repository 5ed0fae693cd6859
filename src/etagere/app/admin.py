"""The admin API: health, metrics, and what testers do to a running server.  JSON in and out.

It asks nobody for a key, so it listens on loopback, and turns away what a web page in somebody's
browser would send: other origins, and names that merely resolve to here.
"""

import base64
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from etagere.app.compose import storage_services
from etagere.app.configuration import Unusable, is_loopback
from etagere.base.clock import Timestamp, seconds
from etagere.base.errors import Refused
from etagere.frontends.common.message import Request, Response
from etagere.kernel.dates import format_iso, parse_iso
from etagere.kv.contract import StoreError
from etagere.servers.faults import Armed, latency_seconds_max, places
from etagere.services.common.accounts import Account

if TYPE_CHECKING:
    from etagere.app.server import Server

body_bytes_max: Final = 1024 * 1024
_numeric_host: Final = re.compile(r"\[[0-9a-fA-F:.]+\]|[0-9.]+")
advance_seconds_max: Final = 100 * 365 * 86_400.0
clock_first: Final = "1970-01-01T00:00:00Z"
clock_last: Final = "9999-01-01T00:00:00Z"
"""What the dates of HTTP and of the services can say, with room for the clock to go on."""
key_bytes: Final = 64


class AdminError(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Admin:
    def __init__(self, server: "Server") -> None:
        self._server = server

    async def handle(self, request: Request) -> Response:
        try:
            _check_sender(request)
            route, argument = _find(request)
            answer = await route(self, request, argument)
        except (AdminError, Unusable) as error:
            status = error.status if isinstance(error, AdminError) else 400
            answer = _json({"error": str(error)}, status)
        except Refused as refused:
            answer = _json({"error": f"The body is too large ({refused.code})."}, 413)
        answer.operation = f"{request.method} {request.raw_path}"
        return answer

    async def health(self, _: Request, __: str) -> Response:
        try:
            await self._server.healthy()
        except StoreError as error:
            return _json({"status": "failed", "error": f"The store: {error}"}, 503)
        return _json({"status": "ok"})

    async def metrics(self, _: Request, __: str) -> Response:
        text = await self._server.metrics()
        kind = "text/plain; version=0.0.4; charset=utf-8"
        return Response(200, {"Content-Type": kind}, text.encode())

    async def status(self, _: Request, __: str) -> Response:
        return _json(self._server.status())

    async def reset(self, request: Request, _: str) -> Response:
        """Everything, or with `?account=NAME` what one account has."""
        name = request.query.get("account")
        if name is None:
            await self._server.reset()
        elif not await self._server.reset_account(name):
            raise AdminError(404, f'There is no account "{name}".')
        return Response(204)

    # ---- time

    async def show_clock(self, _: Request, __: str) -> Response:
        now, frozen = await self._server.clock_now()
        mode = self._server.settings.clock
        return _json({"now": format_iso(now), "ticks": now, "mode": mode, "frozen": frozen})

    async def change_clock(self, request: Request, _: str) -> Response:
        """`{"frozen": true}`, `{"seconds": 60}` or `{"now": "2026-01-01T00:00:00Z"}`."""
        table = await _table(request)
        _known(table, {"frozen", "seconds", "now"})
        if "frozen" in table:
            await self._freeze(_of_type(table, "frozen", bool))
        if "now" in table:
            await self._set(table)
        if "seconds" in table:
            await self._advance(table)
        return await self.show_clock(request, "")

    async def advance_clock(self, request: Request, _: str) -> Response:
        table = {**await _table(request), **_number_in_query(request)}
        _known(table, {"seconds"})
        await self._advance(table)
        return await self.show_clock(request, "")

    async def set_clock(self, request: Request, _: str) -> Response:
        table = await _table(request)
        _known(table, {"now"})
        await self._set(table)
        return await self.show_clock(request, "")

    async def _advance(self, table: Mapping[str, Any]) -> None:
        count = _number(table, "seconds", None)
        if not -advance_seconds_max <= count <= advance_seconds_max:
            raise AdminError(400, '"seconds" goes a century at most.')
        self._needs_virtual()
        now, _ = await self._server.clock_now()
        _check_moment(now + seconds(count))
        await self._server.advance(seconds(count))

    async def _set(self, table: Mapping[str, Any]) -> None:
        when = parse_iso(_of_type(table, "now", str))
        if when is None:
            raise AdminError(400, '"now" must be a time such as "2026-01-01T00:00:00Z".')
        _check_moment(when)
        self._needs_virtual()
        await self._server.set_clock(Timestamp(when))

    async def _freeze(self, frozen: bool) -> None:
        self._needs_virtual()
        await self._server.freeze(frozen=frozen)

    def _needs_virtual(self) -> None:
        if self._server.settings.clock != "virtual":
            raise AdminError(409, "The clock is the real one; start with --clock virtual.")

    # ---- accounts

    async def list_accounts(self, _: Request, __: str) -> Response:
        return _json({"accounts": [account.name for account in self._server.foundation.accounts]})

    async def show_account(self, _: Request, name: str) -> Response:
        account = self._server.foundation.accounts.find(name)
        if account is None:
            raise AdminError(404, f'There is no account "{name}".')
        return _json(_options(account))

    async def put_account(self, request: Request, name: str) -> Response:
        """What is not given stays as it is.  A new account gets a key where none is given; the
        answer has the keys, and where to connect."""
        known = self._server.foundation.accounts.find(name)
        if known is None:
            before = {"keys": [base64.b64encode(os.urandom(key_bytes)).decode()]}
        else:
            before = {**_options(known), "keys": [key.secret_base64() for key in known.keys]}
            del before["name"]
        entry = await self._server.put_account(name, {**before, **await _table(request)})
        urls = {
            service: url.rpartition("/")[0] + "/" + name
            for service, url in self._server.urls.items()
            if service in storage_services
        }
        string = connection_string(name, entry.keys[0], urls)
        answer = {"name": name, "keys": entry.keys, "urls": urls, "connection_string": string}
        return _json(answer, 201 if known is None else 200)

    async def remove_account(self, _: Request, name: str) -> Response:
        if not await self._server.remove_account(name):
            raise AdminError(404, f'There is no account "{name}".')
        return Response(204)

    # ---- faults

    async def list_faults(self, _: Request, __: str) -> Response:
        return _json({"faults": await self._server.faults(), "points": sorted(places)})

    async def arm_fault(self, request: Request, _: str) -> Response:
        try:
            fault = await self._server.arm(_fault(await _table(request)))
        except ValueError as error:
            raise AdminError(400, str(error)) from error
        return _json({"id": fault.id, "point": fault.point}, 201)

    async def clear_faults(self, _: Request, __: str) -> Response:
        await self._server.clear_faults()
        return Response(204)

    async def disarm_fault(self, _: Request, number: str) -> Response:
        if not number.isdecimal() or not await self._server.disarm(int(number)):
            raise AdminError(404, f'There is no armed fault "{number}".')
        return Response(204)


Route = Callable[[Admin, Request, str], Awaitable[Response]]

_routes: Final[dict[str, dict[str, Route]]] = {
    "/healthz": {"GET": Admin.health},
    "/metrics": {"GET": Admin.metrics},
    "/status": {"GET": Admin.status},
    "/reset": {"POST": Admin.reset},
    "/clock": {"GET": Admin.show_clock, "POST": Admin.change_clock},
    "/clock/advance": {"POST": Admin.advance_clock},
    "/clock/set": {"POST": Admin.set_clock},
    "/accounts": {"GET": Admin.list_accounts},
    "/accounts/*": {
        "GET": Admin.show_account,
        "PUT": Admin.put_account,
        "DELETE": Admin.remove_account,
    },
    "/faults": {
        "GET": Admin.list_faults,
        "POST": Admin.arm_fault,
        "DELETE": Admin.clear_faults,
    },
    "/faults/*": {"DELETE": Admin.disarm_fault},
}


def connection_string(name: str, key: str, urls: Mapping[str, str]) -> str:
    scheme = "https" if any(url.startswith("https") for url in urls.values()) else "http"
    endpoints = "".join(f"{service.capitalize()}Endpoint={url};" for service, url in urls.items())
    return f"DefaultEndpointsProtocol={scheme};AccountName={name};AccountKey={key};{endpoints}"


def _find(request: Request) -> tuple[Route, str]:
    path = request.raw_path.rstrip("/") or "/"
    methods = _routes.get(path)
    argument = ""
    if methods is None:
        parent, _, argument = path.rpartition("/")
        methods = _routes.get(parent + "/*")
    if methods is None:
        raise AdminError(404, f"There is nothing at {path}; there are {', '.join(_routes)}.")
    method = "GET" if request.method == "HEAD" else request.method
    route = methods.get(method)
    if route is None:
        raise AdminError(405, f"{path} takes {', '.join(methods)}.")
    return route, argument


def _check_sender(request: Request) -> None:
    host, origin = request.host, request.headers.get("origin")
    if origin is not None and origin.partition("://")[2] != host:
        raise AdminError(403, "Requests of web pages from elsewhere are not taken.")
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    if not (is_loopback(name) or _numeric_host.fullmatch(name)):
        raise AdminError(403, f'The host "{name}" is a name; use an address or localhost.')


def _options(account: Account) -> dict[str, Any]:
    """Everything about it but its keys."""
    return {name: getattr(account, name) for name in account.__dataclass_fields__ if name != "keys"}


def _check_moment(when: int) -> None:
    first, last = parse_iso(clock_first), parse_iso(clock_last)
    assert first is not None
    assert last is not None
    if not first <= when <= last:
        raise AdminError(400, f"The clock goes from {clock_first} to {clock_last}.")


# ---- bodies


def _json(value: Any, status: int = 200) -> Response:
    return Response(
        status, {"Content-Type": "application/json"}, msgspec.json.encode(value) + b"\n"
    )


async def _table(request: Request) -> dict[str, Any]:
    raw = await request.body.read(body_bytes_max)
    if not raw:
        return {}
    try:
        table = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise AdminError(400, f"The body is not JSON: {error}.") from error
    if not isinstance(table, dict):
        raise AdminError(400, "The body must be a JSON object.")
    return table


def _number_in_query(request: Request) -> dict[str, Any]:
    text = request.query.get("seconds")
    if text is None:
        return {}
    try:
        return {"seconds": float(text)}
    except ValueError:
        raise AdminError(400, '"seconds" must be a number.') from None


def _known(table: Mapping[str, Any], names: set[str]) -> None:
    for name in table:
        if name not in names:
            raise AdminError(400, f'"{name}" is not known here; there are {sorted(names)}.')


def _of_type(table: Mapping[str, Any], name: str, kind: type) -> Any:
    value = table.get(name)
    if not isinstance(value, kind):
        raise AdminError(400, f'"{name}" must be given, as {_kinds[kind]}.')
    return value


_kinds: Final = {bool: "true or false", str: "a text"}


def _number(table: Mapping[str, Any], name: str, default: float | None) -> float:
    value = table.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - NaN
        raise AdminError(400, f'"{name}" must be a number.')
    return value


def _whole(table: Mapping[str, Any], name: str, default: int, least: int) -> int:
    value = _number(table, name, default)
    if value != int(value) or not least <= value < 2**31:
        raise AdminError(400, f'"{name}" must be a whole number from {least} on.')
    return int(value)


def _fault(table: Mapping[str, Any]) -> Armed:
    """`{"point": "throttle", "operation": "PutBlob", "count": 3}`; a count of 0 is for ever."""
    names = {"point", "operation", "count", "skip", "probability", "seed", "seconds", "code"}
    _known(table, names)
    point = _of_type(table, "point", str)
    probability = _number(table, "probability", 1.0)
    if not point or not 0 < probability <= 1:
        raise AdminError(400, '"point" must be a name and "probability" above 0, up to 1.')
    delay = _number(table, "seconds", 1.0)
    if not 0 <= delay <= latency_seconds_max:
        raise AdminError(400, f'"seconds" must be from 0 to {latency_seconds_max:g}.')
    count = _whole(table, "count", 1, 0)
    return Armed(
        id=0,
        point=point,
        operation=str(table.get("operation", "")),
        remaining=count or None,
        skip=_whole(table, "skip", 0, 0),
        probability=float(probability),
        seed=_whole(table, "seed", 0, 0),
        seconds=float(delay),
        code=str(table.get("code", "InternalError")),
    )
