"""A client of the Table service: single changes, change sets, and queries of a whole partition."""

import asyncio
import json
import re
from random import Random
from typing import Any

from .history import Outcome, Record
from .world import Answer, World

table = "Shelf"
partitions = ("p0", "p1")
rows = ("r0", "r1", "r2")
_part = re.compile(r"HTTP/1\.1 (\d+) [^\r]*\r\n(.*?)\r\n\r\n(.*?)\r\n--", re.DOTALL)
_etag = re.compile(r"^ETag: (.*?)\r?$", re.MULTILINE)
_index = re.compile(r'"value":"(\d+):')


class TableClient:
    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.name = f"t{number}"
        self.chance = Random(world.chance.random())
        self._written = 0
        self._etags: dict[tuple[str, str], str] = {}

    async def run(self, steps: int) -> None:
        for _ in range(steps):
            partition = self.chance.choice(partitions)
            await self.chance.choices(
                (self._get, self._query, self._change, self._batch, self._rest),
                (20, 15, 50, 25, 8),
            )[0](partition)

    async def _ask(
        self,
        partition: str,
        kind: str,
        method: str,
        path: str,
        headers: dict[str, str] | None = None,
        body: bytes = b"",
        query: str = "",
        **args: Any,
    ) -> tuple[Record, Answer | None]:
        sent = {"accept": "application/json;odata=minimalmetadata", **(headers or {})}
        if body and "content-type" not in sent:
            sent["content-type"] = "application/json"
        record = self.world.history.begin(
            self.name, "table", partition, kind, args, self.world.now()
        )
        answer = await self.world.ask(record, "table", method, f"/{path}", query, sent, body)
        if answer is not None and answer.status >= 400 and not record.code:
            record.code = json.loads(answer.body)["odata.error"]["code"]
        return record, answer

    def _mark(self) -> str:
        self._written += 1
        return f"{self.name}.{self._written}"

    # ---- reads

    async def _get(self, partition: str) -> None:
        row = self.chance.choice(rows)
        record, answer = await self._ask(partition, "get", "GET", _entity(partition, row), row=row)
        if answer is not None and answer.status == 200:
            record.found["rows"] = {row: self._seen(partition, json.loads(answer.body))}

    async def _query(self, partition: str) -> None:
        record, answer = await self._ask(
            partition,
            "query",
            "GET",
            f"{table}()",
            query=f"$filter=PartitionKey%20eq%20'{partition}'",
        )
        if answer is not None and answer.status == 200:
            found = json.loads(answer.body)["value"]
            record.found["rows"] = {each["RowKey"]: self._seen(partition, each) for each in found}

    def _seen(self, partition: str, entity: dict[str, Any]) -> list[str]:
        etag = entity["odata.etag"]
        self._etags[partition, entity["RowKey"]] = etag
        return [entity.get("v", ""), entity.get("m", ""), etag]

    # ---- writes

    def _choose(self, partition: str, row: str) -> dict[str, Any]:
        """One change, as the history keeps it."""
        kind = self.chance.choice(("insert", "replace", "merge", "delete"))
        change: dict[str, Any] = {"change": kind, "row": row}
        if kind != "delete":
            change["mark"] = self._mark()
        etag = self._etags.get((partition, row))
        if kind == "delete" or (kind != "insert" and self.chance.random() < 0.8):
            change["if-match"] = "*" if etag is None or self.chance.random() < 0.15 else etag
        return change

    async def _change(self, partition: str) -> None:
        row = self.chance.choice(rows)
        change = self._choose(partition, row)
        method, path, headers, body = _request(partition, change)
        record, answer = await self._ask(
            partition, "change", method, path, headers, body, changes=[change]
        )
        if answer is not None and answer.status < 300:
            self._note(partition, record, [change], [answer.headers.get("etag", "")])

    async def _batch(self, partition: str) -> None:
        chosen = self.chance.sample(rows, self.chance.choice((2, 3)))
        changes = [self._choose(partition, row) for row in chosen]
        body = _change_set(partition, changes)
        headers = {"content-type": "multipart/mixed; boundary=batch_1"}
        record, answer = await self._ask(
            partition, "change", "POST", "$batch", headers, body, changes=changes
        )
        if answer is None or answer.status != 202:
            return
        parts = _part.findall(answer.body.decode())
        statuses = [int(status) for status, _, _ in parts]
        if statuses and max(statuses) < 300:
            assert len(parts) == len(changes)
            etags = [found[1] if (found := _etag.search(head)) else "" for _, head, _ in parts]
            self._note(partition, record, changes, etags)
        else:
            ((status, _, text),) = parts
            index = _index.search(text)
            record.outcome = Outcome.REFUSED if int(status) in (*range(500), 507) else Outcome.MAYBE
            record.status = int(status)
            record.code = json.loads(text)["odata.error"]["code"]
            record.found["index"] = 0 if index is None else int(index[1])

    def _note(
        self, partition: str, record: Record, changes: list[dict[str, Any]], etags: list[str]
    ) -> None:
        record.found["etags"] = etags
        for change, etag in zip(changes, etags, strict=True):
            if etag:  # of what was deleted the old one is kept, to be tried again
                self._etags[partition, change["row"]] = etag

    async def _rest(self, partition: str) -> None:
        del partition
        await asyncio.sleep(self.chance.choice((0, 0.001, 0.01, 0.1)))


def _entity(partition: str, row: str) -> str:
    return f"{table}(PartitionKey='{partition}',RowKey='{row}')"


def _request(partition: str, change: dict[str, Any]) -> tuple[str, str, dict[str, str], bytes]:
    headers = {"if-match": change["if-match"]} if "if-match" in change else {}
    path = _entity(partition, change["row"])
    match change["change"]:
        case "insert":
            values = {"PartitionKey": partition, "RowKey": change["row"], "v": change["mark"]}
            return "POST", table, headers, json.dumps(values).encode()
        case "replace":
            return "PUT", path, headers, json.dumps({"v": change["mark"]}).encode()
        case "merge":
            return "MERGE", path, headers, json.dumps({"m": change["mark"]}).encode()
        case _:
            return "DELETE", path, headers, b""


def _change_set(partition: str, changes: list[dict[str, Any]]) -> bytes:
    parts = []
    for change in changes:
        method, path, headers, body = _request(partition, change)
        lines = [
            "--changeset_1",
            "Content-Type: application/http",
            "Content-Transfer-Encoding: binary",
            "",
            f"{method} http://127.0.0.1/{path} HTTP/1.1",
            "Content-Type: application/json",
            *(f"{name}: {value}" for name, value in headers.items()),
            "",
            body.decode(),
        ]
        parts.append("\r\n".join(lines))
    inner = "\r\n".join(parts)
    return (
        "--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n"
        f"{inner}\r\n--changeset_1--\r\n--batch_1--\r\n"
    ).encode()
