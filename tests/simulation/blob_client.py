"""A client of the Blob service: reads, writes of every kind, conditions, leases, time."""

import asyncio
from base64 import b64encode
from random import Random
from typing import Any
from urllib.parse import quote

from .history import Outcome, Record
from .segments import read_segments, segment
from .world import Answer, World

container = "shelf"
plain_names = ("plain0", "plain1")
"""Nobody leases these, so that nothing stands between writers but conditions."""
leased_names = ("leased0", "leased1")
metadata_header = "x-ms-meta-mark"
_sizes = (40, 200, 5_000, 70_000, 150_000)


class BlobClient:
    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.name = f"b{number}"
        self.chance = Random(world.chance.random())
        self._written = 0
        self._etags: dict[str, str] = {}
        """The last that was seen of each blob, right or long wrong."""
        self._blocks: dict[str, tuple[str, list[str]]] = {}
        """What a blob consisted of at an ETag, where this client wrote it as a list."""
        self._leases: dict[str, str] = {}
        """The lease on a blob that this client has, or had."""
        self._former: dict[str, str] = {}
        """The last that it ever had."""

    async def run(self, steps: int) -> None:
        for _ in range(steps):
            names = plain_names if self.chance.random() < 0.5 else leased_names
            name = self.chance.choice(names)
            await self._step(name)

    async def _step(self, name: str) -> None:
        choices: list[tuple[Any, float]] = [
            (self._get, 25),
            (self._put, 30),
            (self._delete, 7),
            (self._set_metadata, 10),
            (self._put_list, 12),
            (self._extend_list, 6),
            (self._rest, 10),
        ]
        if name in leased_names:
            choices.append((self._lease, 60))
        actions, weights = zip(*choices, strict=True)
        (action,) = self.chance.choices(actions, weights)
        await action(name)

    # ---- one request

    async def _ask(
        self,
        name: str,
        kind: str,
        method: str,
        query: str = "",
        headers: dict[str, str] | None = None,
        body: bytes = b"",
        **args: Any,
    ) -> tuple[Record, Answer | None]:
        sent = dict(headers or {})
        lease = self._leases.get(name)
        if kind not in ("lease", "get") and lease is not None and self.chance.random() < 0.9:
            sent["x-ms-lease-id"] = lease
        for header in ("if-match", "if-none-match", "x-ms-lease-id"):
            if header in sent:
                args[header] = sent[header]
        record = self.world.history.begin(self.name, "blob", name, kind, args, self.world.now())
        answer = await self.world.ask(
            record, "blob", method, f"/{container}/{name}", query, sent, body
        )
        if answer is not None and "etag" in answer.headers and answer.status < 300:
            record.found["etag"] = self._etags[name] = answer.headers["etag"]
        if answer is not None and answer.code.startswith("Lease") and kind != "lease":
            self._leases.pop(name, None)
        return record, answer

    def _conditions(self, name: str, *, creates: bool = False) -> dict[str, str]:
        kind = self.chance.random()
        etag = self._etags.get(name)
        if creates and kind < 0.2:
            return {"if-none-match": "*"}
        if kind < 0.6 and etag is not None:
            return {"if-match": etag}
        if kind < 0.65:
            return {"if-match": "*"}
        if kind < 0.7 and etag is not None:
            return {"if-none-match": etag}
        return {}

    def _mark(self) -> str:
        self._written += 1
        return f"{self.name}.{self._written}"

    # ---- reads and writes

    async def _get(self, name: str) -> None:
        kind, headers = self.chance.random(), {}
        if kind < 0.2:
            headers = self._conditions(name)
        elif kind < 0.4 and name in self._etags:
            headers = {"if-none-match": self._etags[name]}
        record, answer = await self._ask(name, "get", "GET", headers=headers)
        if answer is not None and answer.status == 200:
            segments = read_segments(answer.body)
            record.found["content"] = None if segments is None else "+".join(segments)
            record.found["meta"] = answer.headers.get(metadata_header, "")
        elif answer is not None and answer.status == 304:
            record.outcome = Outcome.REFUSED

    async def _put(self, name: str) -> None:
        mark = self._mark()
        headers = {"x-ms-blob-type": "BlockBlob", **self._conditions(name, creates=True)}
        body = segment(mark, self.chance.choice(_sizes))
        await self._ask(name, "put", "PUT", "", headers, body, content=mark)

    async def _delete(self, name: str) -> None:
        _, answer = await self._ask(name, "delete", "DELETE", "", self._conditions(name))
        if answer is not None and answer.status == 202:
            self._leases.pop(name, None)

    async def _set_metadata(self, name: str) -> None:
        mark = self._mark()
        headers = {metadata_header: mark, **self._conditions(name)}
        await self._ask(name, "annotate", "PUT", "comp=metadata", headers, meta=mark)

    async def _put_list(self, name: str) -> None:
        marks = [self._mark() for _ in range(self.chance.choice((1, 2, 3)))]
        if await self._stage(name, marks):
            await self._commit(name, [], marks, self._conditions(name, creates=True))

    async def _extend_list(self, name: str) -> None:
        """Put a block behind those that are there: a read-modify-write of the list."""
        known = self._blocks.get(name)
        if known is None or self._etags.get(name) != known[0]:
            return
        mark = self._mark()
        if await self._stage(name, [mark]):
            await self._commit(name, known[1], [mark], {"if-match": known[0]})

    async def _stage(self, name: str, marks: list[str]) -> bool:
        for mark in marks:
            body = segment(mark, self.chance.choice(_sizes))
            query = f"comp=block&blockid={_query_id(mark)}"
            _, answer = await self._ask(name, "stage", "PUT", query, {}, body)
            if answer is None or answer.status != 201:
                return False
        return True

    async def _commit(
        self, name: str, old: list[str], new: list[str], conditions: dict[str, str]
    ) -> None:
        kinds = ["Committed"] * len(old) + ["Uncommitted"] * len(new)
        items = "".join(
            f"<{kind}>{_block_id(mark)}</{kind}>"
            for kind, mark in zip(kinds, old + new, strict=True)
        )
        body = f"<?xml version='1.0'?><BlockList>{items}</BlockList>".encode()
        content = "+".join(old + new)
        _, answer = await self._ask(
            name, "put", "PUT", "comp=blocklist", conditions, body, content=content
        )
        if answer is not None and answer.status == 201:
            self._blocks[name] = (answer.headers["etag"], old + new)

    async def _rest(self, name: str) -> None:
        del name
        await asyncio.sleep(self.chance.choice((0, 0.001, 0.1, 1, 10, 20)))

    # ---- leases

    async def _lease(self, name: str) -> None:
        held = self._leases.get(name)
        if held is None and self.chance.random() < 0.3:
            held = self._former.get(name)  # to no good, unless it was broken or has expired
        action = "acquire"
        if held is not None:
            action = self.chance.choice(("acquire", "renew", "renew", "change", "release", "break"))
        elif self.chance.random() < 0.2:
            action = "break"
        headers = {"x-ms-lease-action": action}
        args: dict[str, Any] = {"action": action}
        if action == "acquire":
            args["seconds"] = self.chance.choice((15, 20, 60, -1))
            headers["x-ms-lease-duration"] = str(args["seconds"])
            if self.chance.random() < 0.5:
                args["proposed"] = headers["x-ms-proposed-lease-id"] = self._guid()
        if action in ("renew", "change", "release"):
            headers["x-ms-lease-id"] = str(held)
        if action == "change":
            args["proposed"] = headers["x-ms-proposed-lease-id"] = self._guid()
        if action == "break" and self.chance.random() < 0.6:
            args["period"] = self.chance.choice((0, 0, 5, 20))
            headers["x-ms-lease-break-period"] = str(args["period"])
        record, answer = await self._ask(name, "lease", "PUT", "comp=lease", headers, **args)
        if answer is None or answer.status >= 500:
            return
        if answer.status < 300 and action in ("acquire", "renew", "change"):
            record.found["lease"] = self._leases[name] = answer.headers["x-ms-lease-id"]
            self._former[name] = self._leases[name]
        elif action in ("release", "renew", "change"):
            self._leases.pop(name, None)

    def _guid(self) -> str:
        text = self.chance.randbytes(16).hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _block_id(mark: str) -> str:
    return b64encode(mark.ljust(24).encode()).decode()


def _query_id(mark: str) -> str:
    return quote(_block_id(mark), safe="")
