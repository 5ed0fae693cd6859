"""Asks a running server's admin API: for the command line, and for tests."""

import http.client
import json
import ssl
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

answer_seconds_max: Final = 60.0


class AdminRefused(Exception):  # noqa: N818 - names what happened
    """The admin API said no; the text is its reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class AdminClient:
    def __init__(self, url: str) -> None:
        """ValueError for what is no address."""
        self.url = url if "://" in url else f"http://{url}"
        self._parts = urlsplit(self.url)
        self._port = self._parts.port

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The decoded answer; None where there is none.  AdminRefused, or OSError."""
        text = self.text(method, path, body)
        return json.loads(text) if text else None

    def text(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> str:
        connection = self._connection()
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        if not 200 <= answer.status < 300:
            raise AdminRefused(answer.status, _reason(text))
        return text

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._port
        if self._parts.scheme != "https":
            return http.client.HTTPConnection(host, port, timeout=answer_seconds_max)
        # The server is on this machine, and its certificate may be of an authority of its own.
        context = ssl._create_unverified_context()  # noqa: S323, SLF001 - see above
        return http.client.HTTPSConnection(host, port, timeout=answer_seconds_max, context=context)


def _reason(text: str) -> str:
    try:
        found = json.loads(text)["error"]
    except (ValueError, KeyError, TypeError):
        return text.strip()
    return str(found)
