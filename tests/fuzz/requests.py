"""Requests from a seed: each begins as one that its operation would take, and is then bent.

What answers said (ETags, leases, receipts, snapshots, markers) is put into later requests, so that
they get past the first check.
"""

import hashlib
import re
from base64 import b64encode
from dataclasses import dataclass, field
from random import Random
from typing import Any
from urllib.parse import quote

from etagere.base.clock import Clock
from etagere.frontends.common.operations import Operation, Resource

from . import words
from .documents import bend, block_id, documents, hostile
from .signing import sign
from .wanted import Wanted, account

_blobs = ("block", "page", "append", "listed", "new")
_learned_headers = {
    "etag": ("if-match", "if-none-match", "x-ms-source-if-match"),
    "x-ms-lease-id": ("x-ms-lease-id", "x-ms-source-lease-id"),
    "last-modified": ("if-modified-since", "if-unmodified-since"),
    "x-ms-blob-append-offset": ("x-ms-blob-condition-appendpos",),
}
_learned_queries = {
    "x-ms-snapshot": ("snapshot", "prevsnapshot"),
    "x-ms-version-id": ("versionid",),
    "x-ms-copy-id": ("copyid",),
    "x-ms-popreceipt": ("popreceipt",),
    "x-ms-continuation-nextpartitionkey": ("nextpartitionkey",),
    "x-ms-continuation-nextrowkey": ("nextrowkey",),
    "x-ms-continuation-nexttablename": ("nexttablename",),
}
_learned_elements = {"NextMarker": "marker", "Snapshot": "snapshot", "VersionId": "versionid"}
_facts = ("x-ms-snapshot", "x-ms-version-id", "x-ms-lease-id", "x-ms-copy-id", "x-ms-copy-status")
"""What makes sense for the path alone that it was learned from."""
_about = {
    "DeleteBlobVersion": ("x-ms-version-id", "versionid"),
    "DeleteBlobPermanently": ("x-ms-snapshot", "snapshot"),
    "AbortCopyBlob": ("x-ms-copy-id", "copyid"),
    "BreakBlobLease": ("x-ms-lease-id", ""),
    "LeaseBlob": ("x-ms-lease-id", ""),
    "BreakContainerLease": ("x-ms-lease-id", ""),
}
"""Operations that need something which was there before, and the query name that takes it."""
_element = re.compile(rb"<(NextMarker|Snapshot|VersionId|Version)>([^<]+)<")
_message = re.compile(rb"<MessageId>([^<]+)<.*?<PopReceipt>([^<]+)<", re.DOTALL)


@dataclass(slots=True)
class Learned:
    """Values that the server gave, by the header or query name that takes them."""

    headers: dict[str, list[str]] = field(default_factory=dict)
    queries: dict[str, list[str]] = field(default_factory=dict)
    messages: list[tuple[str, str]] = field(default_factory=list)
    """Ids and receipts."""
    facts: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """By header: the paths whose answers had it, and what it was."""

    def take(self, wanted: Wanted, headers: dict[str, str], body: bytes) -> None:
        for name, value in headers.items():
            low = name.lower()
            for target in _learned_headers.get(low, ()):
                _remember(self.headers, target, value)
            for target in _learned_queries.get(low, ()):
                _remember(self.queries, target, quote(value, safe=""))
            if low in _facts:
                kept = self.facts.setdefault(low, [])
                kept.append((wanted.path, value))
                del kept[:-8]
        for name, raw in _element.findall(body[:20_000]):
            value = quote(raw.decode("utf-8", "replace"), safe="")
            if name == b"Version":
                _remember(self.headers, "x-ms-deleted-container-version", value)
            else:
                _remember(self.queries, _learned_elements[name.decode()], value)
        for message, receipt in _message.findall(body[:20_000]):
            pair = quote(message.decode(), safe=""), quote(receipt.decode(), safe="")
            self.messages = [*self.messages[-20:], pair]


def _remember(values: dict[str, list[str]], name: str, value: str) -> None:
    kept = values.setdefault(name, [])
    kept.append(value)
    del kept[:-8]


class Generator:
    def __init__(
        self,
        chance: Random,
        operations: dict[str, tuple[Operation[Any], ...]],
        signature: str,
        clock: Clock,
    ) -> None:
        self._clock = clock
        self.learned_from = {service: Learned() for service in operations}
        self.learned = Learned()
        """What the service at hand gave."""
        self._chance = chance
        self._operations = operations
        self._services = sorted(operations)
        self._signature = signature
        self._documents = documents(signature)
        self._message = ("", "")

    def next(self) -> Wanted:
        chance = self._chance
        service = chance.choice(self._services)
        self.learned = self.learned_from[service]
        operation = chance.choice(self._operations[service])
        wanted = Wanted(
            service, chance.choice(operation.methods), self._path(service, operation), "", {}, b""
        )
        wanted.operation = operation.name
        pairs = self._query(operation)
        wanted.headers = self._headers(operation)
        self._go_back_to(wanted, operation, pairs)
        wanted.body = self._body(wanted, operation, pairs)
        bends = chance.choice((0, 0, 0, 1, 1, 2, 4))
        for _ in range(bends):
            self._bend(wanted, pairs)
        if wanted.body or wanted.method in ("PUT", "POST", "MERGE"):
            wanted.headers.setdefault("content-length", str(len(wanted.body)))
        if chance.random() < 0.04:
            self._misstate_length(wanted)
        self._sign(wanted, pairs)
        wanted.query = "&".join(f"{name}={value}" for name, value in pairs)
        if wanted.headers.get("authorization") == "":
            sign(wanted, self._clock.now())
        return wanted

    # ---- as it should be

    def _path(self, service: str, operation: Operation[Any]) -> str:
        chance = self._chance
        match service, operation.resource:
            case _, Resource.SERVICE:
                inner = ""
            case "blob", Resource.CONTAINER:
                inner = chance.choice(("shelf", "shelf", "other", "$root", "$web"))
            case "blob", _:
                name = _homes.get(operation.comp) or chance.choice(_blobs)
                inner = chance.choice((*[f"shelf/{name}"] * 6, f"$web/{name}", name))
            case "queue", Resource.CONTAINER:
                inner = chance.choice(("tasks", "tasks", "other"))
            case "queue", Resource.MESSAGES:
                inner = "tasks/messages"
            case "queue", _:
                known = [*self.learned.messages, (words.guids[0], "AAAA")]
                self._message = chance.choice(known)
                inner = f"tasks/messages/{self._message[0]}"
            case "table", Resource.TABLES:
                inner = "Tables"
            case "table", Resource.BATCH:
                inner = "$batch"
            case "table", Resource.CONTAINER:
                inner = chance.choice(("Tables('Shelf')", "Tables('Other')"))
            case "table", Resource.ENTITIES:
                inner = chance.choice(("Shelf", "Shelf()", "Other()"))
            case _:
                row = chance.choice("rst")
                inner = f"Shelf(PartitionKey='p',RowKey='{row}')"
        secondary = "-secondary" if operation.comp == "stats" else ""
        return f"/{account}{secondary}/{inner}"

    def _go_back_to(
        self, wanted: Wanted, operation: Operation[Any], pairs: list[tuple[str, str]]
    ) -> None:
        """Ask the path where there is what the operation needs, if there was one."""
        chance = self._chance
        match operation.name:
            case "GetWebContent":
                wanted.headers["host"] = f"{account}.z1.web.localhost"
                wanted.path = chance.choice(("/", "/index.html", "/missing", "/dir/"))
            case "RestoreContainer":
                wanted.path = f"/{account}/{chance.choice(('passing', 'passing', 'other'))}"
                wanted.headers["x-ms-deleted-container-name"] = wanted.path.rpartition("/")[2]
            case "RenameContainer":
                names = ["other", "renamed"]
                chance.shuffle(names)
                wanted.path = f"/{account}/{names[0]}"
                wanted.headers["x-ms-source-container-name"] = names[1]
            case "IncrementalCopyBlob":
                known = self.learned.facts.get("x-ms-snapshot", [])
                of_pages = [pair for pair in known if pair[0].endswith("page")]
                if of_pages:
                    path, moment = chance.choice(of_pages)
                    source = f"http://127.0.0.1{path}?snapshot={quote(moment)}&{self._signature}"
                    wanted.headers["x-ms-copy-source"] = source
                    wanted.path = f"/{account}/shelf/follower"
            case "PutPageFromUrl":
                source = f"http://127.0.0.1/{account}/shelf/page?{self._signature}"
                wanted.headers["x-ms-copy-source"] = source
                wanted.headers["x-ms-source-range"] = "bytes=0-511"
        header, name = _about.get(operation.name, ("", ""))
        known = self.learned.facts.get(header, [])
        if known and chance.random() < 0.7:
            wanted.path, value = chance.choice(known)
            pairs[:] = [pair for pair in pairs if pair[0] != name]
            if name:
                pairs.append((name, quote(value, safe="")))

    def _query(self, operation: Operation[Any]) -> list[tuple[str, str]]:
        pairs = []
        if operation.restype:
            pairs.append(("restype", operation.restype))
        if operation.comp:
            pairs.append(("comp", operation.comp))
        if operation.chosen_by_query is not None:
            name, value = operation.chosen_by_query
            pairs.append((name, value or self._query_value(name)))
        if operation.comp == "copy":
            pairs.append(("copyid", self._query_value("copyid")))
        if operation.name == "ListContainers" and self._chance.random() < 0.5:
            pairs.append(("include", "deleted"))
        if operation.comp == "block":
            pairs.append(("blockid", quote(block_id(self._chance.randrange(3)), safe="")))
        if operation.name in ("UpdateMessage", "DeleteMessage"):
            pairs += [("popreceipt", self._message[1]), ("visibilitytimeout", "0")]
        if operation.name == "FindBlobsByTags":
            pairs.append(("where", quote("a='b'")))
        return pairs

    def _headers(self, operation: Operation[Any]) -> dict[str, str]:
        found = {"host": "127.0.0.1", "x-ms-version": "2025-05-05"}
        for choice in (operation.chosen_by, operation.and_by):
            if choice is not None:
                name, value = choice
                found[name] = value or self._header_value(name)
        for name in _needed.get(operation.comp, ()):
            usual = self._chance.random() < 0.6 and name not in self.learned.headers
            found.setdefault(name, words.headers[name][0] if usual else self._header_value(name))
        if operation.resource is Resource.ITEM and "page" in operation.name.lower():
            found.setdefault("x-ms-range", "bytes=0-511")
        if "x-ms-copy-source" in found and self._chance.random() < 0.8:
            source = self._chance.choice(_blobs)
            found["x-ms-copy-source"] = (
                f"http://127.0.0.1/{account}/shelf/{source}?{self._signature}"
            )
        if operation.resource is Resource.ITEM and operation.name.endswith("Entity"):
            found["if-match"] = self._header_value("if-match")
            if operation.name.startswith("Insert") or self._chance.random() < 0.4:
                found["if-match"] = "*"
            if operation.name.startswith("InsertOr"):
                del found["if-match"]
        if found.get("x-ms-blob-type") == "PageBlob":
            found["x-ms-blob-content-length"] = "1024"
        return found

    def _body(
        self, wanted: Wanted, operation: Operation[Any], pairs: list[tuple[str, str]]
    ) -> bytes:
        if wanted.method in ("GET", "HEAD", "DELETE", "OPTIONS"):
            return b""
        chance = self._chance
        if wanted.service == "table" and not operation.comp:
            wanted.headers["content-type"] = "application/json"
        if operation.comp == "batch" or operation.resource is Resource.BATCH:
            wanted.headers["content-type"] = "multipart/mixed; boundary=batch_1"
        if "x-ms-copy-source" in wanted.headers:
            return b""
        if operation.comp == "page":
            return bytes(512)
        kinds = _documents_of(wanted.service, operation, pairs)
        if kinds:
            return self._documents[chance.choice(kinds)]
        if wanted.headers.get("x-ms-blob-type") == "BlockBlob" or operation.comp in _data:
            return chance.choice((b"data", b"", bytes(100), bytes(70_000)))
        return b""

    # ---- as it should not be

    def _bend(self, wanted: Wanted, pairs: list[tuple[str, str]]) -> None:
        chance = self._chance
        match chance.randrange(9):
            case 0 | 1:
                name = chance.choice(_header_names)
                wanted.headers[name] = self._header_value(name)
            case 2:
                name = chance.choice([*wanted.headers])
                if name != "host" or chance.random() < 0.1:
                    wanted.headers[name] = chance.choice(words.odd_texts).strip(" \t")
            case 3:
                name = chance.choice(_query_names)
                pairs.append((quote(name, safe="$"), self._query_value(name)))
            case 4:
                if pairs:
                    at = chance.randrange(len(pairs))
                    pairs[at] = (pairs[at][0], quote(chance.choice(words.odd_texts), safe="%"))
            case 5:
                self._bend_path(wanted)
            case 6:
                wanted.body = bend(wanted.body, chance)
            case 7:
                wanted.body = chance.choice((*hostile, *self._documents))
            case _:
                if chance.random() < 0.4:
                    wanted.method = chance.choice(words.methods)
                elif pairs:
                    del pairs[chance.randrange(len(pairs))]

    def _bend_path(self, wanted: Wanted) -> None:
        chance = self._chance
        odd = chance.choice(words.paths_odd)
        at = chance.randrange(1, max(2, len(wanted.path)))
        wanted.path = chance.choice(
            (
                wanted.path + odd,
                wanted.path[:at] + odd + wanted.path[at:],
                f"{wanted.path}/{odd}",
                f"/{account}/{odd}",
                wanted.path.replace(account, f"{account}-secondary", 1),
                wanted.path.removeprefix(f"/{account}") or "/",
                f"/{odd}",
                wanted.path[:at],
            )
        )

    def _misstate_length(self, wanted: Wanted) -> None:
        chance = self._chance
        kind = chance.randrange(3)
        if kind == 0:
            wanted.headers["content-length"] = str(
                len(wanted.body) + chance.choice((1, 100, 2**40))
            )
            wanted.sent_bytes = len(wanted.body)
        elif kind == 1 and wanted.body:
            wanted.sent_bytes = chance.randrange(len(wanted.body))
        else:
            wanted.headers.pop("content-length", None)

    def _sign(self, wanted: Wanted, pairs: list[tuple[str, str]]) -> None:
        kind = self._chance.random()
        if wanted.operation == "GetUserDelegationKey":
            kind = 0.42
        if kind < 0.4:
            wanted.headers["authorization"] = ""  # the key's, once all else is settled
        elif kind < 0.45:
            wanted.headers["authorization"] = "Bearer somebody"
        elif kind < 0.92:
            pairs += [(name, value) for name, _, value in _split(self._signature)]
        elif kind < 0.95:
            signed = [(name, value) for name, _, value in _split(self._signature)]
            del signed[self._chance.randrange(len(signed))]
            pairs += signed
        elif kind < 0.98:
            secret = b64encode(hashlib.sha256(wanted.body).digest()).decode()
            wanted.headers["authorization"] = self._chance.choice(
                (f"SharedKey {account}:{secret}", "SharedKey", "Bearer x.y.z", "\xe9", "Basic eDp5")
            )

    def _header_value(self, name: str) -> str:
        known = self.learned.headers.get(name, [])
        values = words.headers.get(name, words.odd_texts)
        if known and self._chance.random() < 0.6:
            return self._chance.choice(known)
        return self._chance.choice(values)

    def _query_value(self, name: str) -> str:
        known = self.learned.queries.get(name, [])
        if known and self._chance.random() < 0.6:
            return self._chance.choice(known)
        return quote(self._chance.choice(words.queries.get(name, words.odd_texts)), safe="%")


_needed = {
    "lease": (
        "x-ms-lease-action",
        "x-ms-lease-duration",
        "x-ms-lease-id",
        "x-ms-proposed-lease-id",
    ),
    "tier": ("x-ms-access-tier",),
    "page": ("x-ms-page-write",),
    "copy": ("x-ms-copy-action",),
    "expiry": ("x-ms-expiry-option", "x-ms-expiry-time"),
    "immutabilityPolicies": (
        "x-ms-immutability-policy-until-date",
        "x-ms-immutability-policy-mode",
    ),
    "legalhold": ("x-ms-legal-hold",),
    "undelete": ("x-ms-deleted-container-name", "x-ms-deleted-container-version"),
}
_data = ("block", "appendblock")
_homes = {
    "page": "page",
    "pagelist": "page",
    "appendblock": "append",
    "seal": "append",
    "block": "listed",
    "blocklist": "listed",
}
"""The blob that an operation on one type is for."""
_header_names = sorted(words.headers)
_query_names = sorted(words.queries)


def _documents_of(
    service: str, operation: Operation[Any], pairs: list[tuple[str, str]]
) -> tuple[int, ...]:
    """The numbers of the documents that fit."""
    del pairs
    by_comp = {
        "blocklist": (0, 1, 2),
        "tags": (3,),
        "acl": (4,),
        "properties": (5,) if service == "blob" else (14,),
        "userdelegationkey": (7,),
        "batch": (12, 15),
        "query": (13,),
    }
    if operation.comp in by_comp:
        return by_comp[operation.comp]
    if service == "queue" and operation.resource in (Resource.MESSAGES, Resource.ITEM):
        return (6,)
    if service == "table":
        by_resource = {Resource.BATCH: (11,), Resource.TABLES: (9,), Resource.ENTITIES: (8,)}
        return by_resource.get(operation.resource, (8, 10))
    return ()


def _split(query: str) -> list[tuple[str, str, str]]:
    return [item.partition("=") for item in query.split("&")]
