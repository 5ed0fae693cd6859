"""`etagere serve`: from settings to a server that runs until it is told to stop."""

import asyncio
import json
import logging
import signal
import sys
from typing import Final

from etagere.app import logs
from etagere.app.runtime import run, tune
from etagere.app.server import Server
from etagere.app.settings import Settings

_log: Final = logging.getLogger(__name__)
_signals: Final = (signal.SIGTERM, signal.SIGINT)


def serve(settings: Settings) -> int:
    logs.set_up(settings.log_level, settings.log_format)
    return run(_serve(settings))


async def _serve(settings: Settings) -> int:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _signals:
        loop.add_signal_handler(number, stopped.set)
    server = await Server.start(settings)
    sys.stdout.write(ready_line(settings, server.urls))
    sys.stdout.flush()
    furnished = await _furnish(server)
    if furnished:
        if settings.tls_cert is not None:
            _reload_on_hangup(server)
        await stopped.wait()
    for number in _signals:
        # A second signal ends it at once.
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_DFL)
    await server.stop()
    return 0 if furnished else 1


def _reload_on_hangup(server: Server) -> None:
    """Only where there is something to reload: without, a closed terminal ends the server."""
    reloads: set[asyncio.Task[None]] = set()

    def reload() -> None:
        task = asyncio.create_task(server.reload_certificate())
        reloads.add(task)  # the loop holds tasks weakly
        task.add_done_callback(reloads.discard)

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)


async def _furnish(server: Server) -> bool:
    """Load what was promised; nothing that a user could have asked for fails here."""
    try:
        await server.furnish()
    except Exception:  # noqa: BLE001 - whatever it is, nobody is served
        _log.critical("not able to serve", exc_info=True)
        return False
    tune()
    return True


def ready_line(settings: Settings, urls: dict[str, str]) -> str:
    if settings.ready_json:
        return json.dumps(urls) + "\n"
    return " ".join(["ready", *(f"{name}={url}" for name, url in urls.items())]) + "\n"
