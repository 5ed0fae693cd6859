"""Who waits for what to be notified, within one process and one event loop."""

import asyncio
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from types import TracebackType

from etagere.kv.contract import Signal, StoreClosed


class Topics:
    """The watchers of an engine.  `publish` belongs to the event loop's thread."""

    def __init__(self) -> None:
        self._watchers: dict[bytes, set[_Watcher]] = {}
        self._closed = False

    def watch(self, topic: bytes) -> AbstractAsyncContextManager[Signal]:
        return _Watcher(self, topic)

    def publish(self, topics: Iterable[bytes]) -> None:
        watchers = self._watchers
        if not watchers:
            return
        for topic in topics:
            for watcher in watchers.get(topic, ()):
                watcher.wake()

    def publish_all(self) -> None:
        """For when the whole store changed."""
        self.publish(tuple(self._watchers))

    def close(self) -> None:
        """Ends every wait, now and later, with StoreClosed."""
        self._closed = True
        self.publish_all()

    @property
    def closed(self) -> bool:
        return self._closed

    def enter(self, watcher: "_Watcher") -> None:
        self._watchers.setdefault(watcher.topic, set()).add(watcher)

    def leave(self, watcher: "_Watcher") -> None:
        remaining = self._watchers[watcher.topic]
        remaining.discard(watcher)
        if not remaining:
            del self._watchers[watcher.topic]


class _Watcher:
    """One `watch`, and its Signal."""

    def __init__(self, topics: Topics, topic: bytes) -> None:
        self.topic = topic
        self._topics = topics
        self._notified = asyncio.Event()

    async def __aenter__(self) -> Signal:
        self._topics.enter(self)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._topics.leave(self)

    def wake(self) -> None:
        self._notified.set()

    async def wait(self) -> None:
        """Woken by the topic or by the end of the engine; the caller sets a limit of time."""
        if not self._topics.closed:
            await self._notified.wait()
            self._notified.clear()
        if self._topics.closed:
            raise StoreClosed
