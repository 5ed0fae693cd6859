"""A client that appends to blobs that others append to, too (Azure: 'Append Block')."""

from random import Random

from .blob_client import container
from .history import Record
from .segments import read_segments, segment
from .world import World

logs = ("log0", "log1")
_sizes = (40, 500, 70_000)


class AppendClient:
    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.name = f"a{number}"
        self.chance = Random(world.chance.random())
        self._written = 0
        self._ends: dict[str, int] = {}
        """Where each blob ended when this client last heard of it."""

    async def run(self, steps: int) -> None:
        for _ in range(steps):
            log = self.chance.choice(logs)
            if self.chance.random() < 0.3:
                await self.look(log)
            else:
                await self._append(log)

    async def _append(self, log: str) -> None:
        self._written += 1
        mark = f"{self.name}.{self._written}"
        size = self.chance.choice(_sizes)
        headers = {}
        expected = self._ends.get(log)
        if expected is not None and self.chance.random() < 0.4:
            headers["x-ms-blob-condition-appendpos"] = str(expected)
        record = self._begin(log, "append", {"mark": mark, "size": size, "at": expected, **headers})
        body = segment(mark, size)
        answer = await self.world.ask(
            record, "blob", "PUT", f"/{container}/{log}", "comp=appendblock", headers, body
        )
        if answer is not None and answer.status == 201:
            offset = int(answer.headers["x-ms-blob-append-offset"])
            record.found = {"offset": offset, "etag": answer.headers["etag"]}
            self._ends[log] = offset + size

    async def look(self, log: str) -> None:
        record = self._begin(log, "get", {})
        answer = await self.world.ask(record, "blob", "GET", f"/{container}/{log}")
        if answer is not None and answer.status == 200:
            record.found = {"marks": read_segments(answer.body), "size": len(answer.body)}
            self._ends[log] = len(answer.body)

    def _begin(self, log: str, kind: str, args: dict[str, object]) -> Record:
        return self.world.history.begin(self.name, "log", log, kind, args, self.world.now())
