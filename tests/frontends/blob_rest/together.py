"""Many clients at once, each on a connection of its own."""

import threading
from collections.abc import Callable

from .serving import RawClient, Server


def at_once(server: Server, count: int, work: Callable[[RawClient, int], None]) -> None:
    """Start all of them together, and raise what any of them raises."""
    failures: list[BaseException] = []
    ready = threading.Barrier(count)

    def run(number: int) -> None:
        client = RawClient(server.port)
        try:
            ready.wait(30)
            work(client, number)
        except BaseException as failure:  # noqa: BLE001 - raised again below
            failures.append(failure)
        finally:
            client.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if failures:
        raise failures[0]
