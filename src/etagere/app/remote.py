"""What the command line asks of a running server's admin API."""

import http.client
import re
import sys
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from etagere.app.admin_client import AdminClient, AdminRefused
from etagere.app.configuration import Unusable

_units: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_duration: Final = re.compile(r"(-?\d+(?:\.\d+)?)([smhd]?)")


def ask(admin: str, method: str, path: str, body: Mapping[str, Any] | None = None) -> int:
    """Print the answer; 0, or 1 with the server's complaint."""
    try:
        client = AdminClient(admin)
    except ValueError as error:
        raise Unusable(
            f'"{admin}" is no address; use http://127.0.0.1:10080.', usage=True
        ) from error
    try:
        sys.stdout.write(client.text(method, path, body))
    except AdminRefused as refused:
        sys.stderr.write(f"etagere: {refused}\n")
        return 1
    except (OSError, http.client.HTTPException) as error:
        raise Unusable(
            f"no answer from {admin} ({error}); is the server running, with that --admin-port?"
        ) from error
    return 0


def clock(admin: str, action: str, value: str | None) -> int:
    if action == "show":
        return ask(admin, "GET", "/clock")
    if action in ("freeze", "resume"):
        return ask(admin, "POST", "/clock", {"frozen": action == "freeze"})
    if value is None:
        raise Unusable(f"clock {action} needs a value, such as 90s or 2h.", usage=True)
    if action == "set":
        return ask(admin, "POST", "/clock/set", {"now": value})
    found = _duration.fullmatch(value)
    if found is None:
        raise Unusable(f'"{value}" is no duration; use seconds, 90s, 15m, 2h or 7d.', usage=True)
    return ask(admin, "POST", "/clock/advance", {"seconds": float(found[1]) * _units[found[2]]})


def faults(admin: str, action: str, point: str | None, options: Mapping[str, Any]) -> int:
    if action == "list":
        return ask(admin, "GET", "/faults")
    if action == "clear":
        return ask(
            admin, "DELETE", "/faults" if point is None else f"/faults/{quote(point, safe='')}"
        )
    if point is None:
        raise Unusable("faults arm needs a point, such as throttle.", usage=True)
    names = ("operation", "count", "skip", "probability", "seed", "seconds", "code")
    given = {name: options[name] for name in names if options[name] is not None}
    return ask(admin, "POST", "/faults", {"point": point, **given})
