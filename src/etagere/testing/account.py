"""What a test holds: an account of its own on a running server, its clock and its faults."""

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from etagere.app.settings import development_namespace_key
from etagere.testing.running import Running


class Faults:
    """Arm what should go wrong (docs/faults.md)."""

    def __init__(self, running: Running) -> None:
        self._running = running

    def arm(self, point: str, operation: str = "", *, count: int = 1, **options: Any) -> int:
        """`count` times (0: for ever), for one operation or every one; returns its number."""
        fault = {"point": point, "operation": operation, "count": count, **options}
        answer = self._running.admin.ask("POST", "/faults", fault)
        return int(answer["id"])

    def armed(self) -> list[Mapping[str, Any]]:
        return list(self._running.admin.ask("GET", "/faults")["faults"])

    def clear(self) -> None:
        self._running.admin.ask("DELETE", "/faults")


class EtagereServer:
    """A fresh account.  Tests that hold different ones do not see each other."""

    def __init__(self, running: Running, options: Mapping[str, Any] | None = None) -> None:
        self._running = running
        self._moved = False
        self.account_name = "t" + uuid.uuid4().hex[:20]
        answer = running.admin.ask("PUT", f"/accounts/{self.account_name}", options or {})
        self.account_key: str = answer["keys"][0]
        self.connection_string: str = answer["connection_string"]
        self.urls: Mapping[str, str] = answer["urls"]
        self.admin_url = running.urls["admin"]
        self.faults = Faults(running)

    @property
    def blob_url(self) -> str:
        return self.urls["blob"]

    @property
    def queue_url(self) -> str:
        return self.urls["queue"]

    @property
    def table_url(self) -> str:
        return self.urls["table"]

    @property
    def bus_connection_string(self) -> str:
        """Of the one Service Bus namespace, which all accounts share."""
        port = urlsplit(self._running.urls["amqp"]).port
        return (
            f"Endpoint=sb://localhost:{port};SharedAccessKeyName=RootManageSharedAccessKey;"
            f"SharedAccessKey={development_namespace_key};UseDevelopmentEmulator=true;"
        )

    def now(self) -> datetime:
        """The server's time."""
        ticks = self._running.admin.ask("GET", "/clock")["ticks"]
        return datetime.fromtimestamp(ticks / 10_000_000, UTC)

    def advance(self, seconds: float) -> None:
        """Move the server's time on: leases, locks, visibility and retention obey at once."""
        self._change_clock({"seconds": seconds})

    def set_time(self, when: datetime) -> None:
        """Move it to a moment (an aware datetime)."""
        self._change_clock({"now": when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")})

    def freeze(self) -> None:
        """Let it stand still until it is moved or resumed."""
        self._change_clock({"frozen": True})

    def resume(self) -> None:
        self._change_clock({"frozen": False})

    def _change_clock(self, change: Mapping[str, Any]) -> None:
        self._moved = True
        self._running.admin.ask("POST", "/clock", change)

    def reset(self) -> None:
        """Forget what the account has stored."""
        self._running.admin.ask("POST", f"/reset?account={self.account_name}")

    def metrics(self) -> str:
        """In Prometheus' text format, of the whole server."""
        return self._running.admin.text("GET", "/metrics")

    def close(self) -> None:
        """Remove the account with all it has, and leave time and faults as they were."""
        self.faults.clear()
        if self._moved:
            self.resume()
            self.set_time(datetime.now(UTC))
        self._running.admin.ask("DELETE", f"/accounts/{self.account_name}")
