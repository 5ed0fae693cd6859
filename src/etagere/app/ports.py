"""Every port of a process, bound before anything that will serve it is loaded.

Binding is what may fail and takes no time; loading the services takes most of a start and does not
fail.  So the ports are bound first, and the system keeps whoever connects meanwhile.
"""

import socket
import ssl

from etagere.app.configuration import Unusable
from etagere.app.settings import Settings, flag_of
from etagere.servers.http.server import CannotListen, bind


class Ports:
    def __init__(self) -> None:
        self._bound: dict[str, socket.socket] = {}
        self.numbers: dict[str, int] = {}
        """The ports in use, also where port 0 was asked for."""

    def bind(
        self,
        name: str,
        setting: str,
        host: str,
        port: int,
        *,
        shared: bool = False,
        joining: bool = False,
    ) -> None:
        """`Unusable` says which flag to change."""
        try:
            bound = bind(host, port, shared_port=shared, joining=joining)
        except CannotListen as error:
            raise Unusable(f"{flag_of(setting)}: {error}") from error
        self._bound[name] = bound
        self.numbers[name] = bound.getsockname()[1]

    def take(self, name: str) -> socket.socket:
        """Whoever takes a socket serves it, and closes it."""
        return self._bound.pop(name)

    def close(self) -> None:
        for bound in self._bound.values():
            bound.close()
        self._bound.clear()


def bus_ports(settings: Settings, tls: ssl.SSLContext | None) -> dict[str, str]:
    """The ports of the bus, and the settings that have their numbers.  The one for TLS needs a
    certificate: one that was given, or one of our own, which a server in memory cannot keep."""
    if "bus" not in settings.services:
        return {}
    ports = {"amqp": "amqp_port", "amqps": "amqps_port", "bus-admin": "bus_admin_port"}
    if tls is None and settings.in_memory:
        del ports["amqps"]
    return ports
