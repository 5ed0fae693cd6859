"""HTTP/1.1 on uvloop and httptools: connections, their limits, and the listeners they come from."""

from etagere.servers.http.connection import Handler, HttpConnection, Upgrade, Upgrader
from etagere.servers.http.limits import HttpLimits
from etagere.servers.http.server import HttpServer, Listener

__all__ = [
    "Handler",
    "HttpConnection",
    "HttpLimits",
    "HttpServer",
    "Listener",
    "Upgrade",
    "Upgrader",
]
