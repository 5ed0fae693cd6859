"""The two HTTP interfaces of the bus behind one address, told apart by the path."""

from typing import Final

from etagere.base.errors import Refused
from etagere.frontends.bus_admin import service as administration
from etagere.frontends.bus_admin.service import BusAdmin
from etagere.frontends.bus_rest.service import BusRest, Place, locate
from etagere.frontends.common.message import Request, Response

health_path: Final = "/health"
_healthy: Final = b'{"status":"healthy","message":"Service is healthy."}'
"""What the official emulator says on the port of its administration, to whoever asks."""

_message_operations: Final = {
    ("POST", 0): "SendMessage",
    ("POST", 1): "PeekLockMessage",
    ("DELETE", 1): "ReceiveAndDeleteMessage",
    ("DELETE", 2): "DeleteMessage",
    ("PUT", 2): "UnlockMessage",
    ("POST", 2): "RenewLock",
}
_entity_operations: Final = {"GET": "GetEntity", "PUT": "PutEntity", "DELETE": "DeleteEntity"}
"""For metrics: by the method, and how many parts follow `messages` in the path."""


class BusHttp:
    def __init__(self, admin: BusAdmin, runtime: BusRest) -> None:
        self._admin = admin
        self._runtime = runtime

    async def handle(self, request: Request) -> Response:
        if request.raw_path == health_path and _is_probe(request):
            response = Response(200, {"Content-Type": "application/json"}, _healthy)
            response.operation = "Health"
        elif (place := _place_of_messages(request.raw_path)) is not None:
            response = await self._runtime.handle(request)
            response.operation = _message_operations.get((request.method, len(place.action)), "")
        else:
            response = await self._admin.handle(request)
            response.operation = _entity_operation(request)
        return response


def _is_probe(request: Request) -> bool:
    """A client of the administration shows a token; an entity may be called `health` too."""
    return request.method == "GET" and "authorization" not in request.headers


def _place_of_messages(raw_path: str) -> Place | None:
    if "messages" not in raw_path.casefold():
        return None
    try:
        return locate(raw_path)
    except Refused:  # the administration says what is wrong with the path
        return None


def _entity_operation(request: Request) -> str:
    try:
        if request.method == "GET" and administration.locate(request.raw_path).listing:
            return "ListEntities"
    except Refused:
        return ""
    return _entity_operations.get(request.method, "")
