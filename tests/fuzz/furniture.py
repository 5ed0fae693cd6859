"""Something of each kind, so that requests find what they are about, also later on."""

from collections.abc import Iterator

from etagere.services.common.accounts import development_name

from .documents import properties
from .target import Answer, Target, signature
from .wanted import Wanted

Asked = tuple[Wanted, Answer]

_listed = b"<BlockList><Latest>aWQwMA==</Latest></BlockList>"
_block = {"x-ms-blob-type": "BlockBlob"}
_append = {"x-ms-blob-type": "AppendBlob"}
_page = {"x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": "1024"}
_first_page = {"x-ms-page-write": "update", "x-ms-range": "bytes=0-511"}
_lease = {"x-ms-lease-action": "acquire", "x-ms-lease-duration": "60"}
_json = {"content-type": "application/json"}
_elsewhere = {"x-ms-copy-source": "https://elsewhere.example/c/b"}
_Row = tuple[str, str, str, str, dict[str, str], bytes]

_always: tuple[_Row, ...] = (
    ("blob", "PUT", "/shelf", "restype=container", {}, b""),
    ("blob", "PUT", "/$web", "restype=container", {}, b""),
    ("blob", "PUT", "/$root", "restype=container", {}, b""),
    ("blob", "PUT", "/shelf/block", "", _block, b"data"),
    ("blob", "PUT", "/shelf/append", "", _append, b""),
    ("blob", "PUT", "/shelf/page", "", _page, b""),
    ("blob", "PUT", "/$web/index.html", "", _block, b"<p>"),
    ("blob", "PUT", "/shelf/listed", "comp=block&blockid=aWQwMA%3D%3D", {}, b"block"),
    ("blob", "PUT", "/shelf/listed", "comp=blocklist", {}, _listed),
    ("queue", "PUT", "/tasks", "", {}, b""),
    ("table", "POST", "/Tables", "", _json, b'{"TableName":"Shelf"}'),
    ("table", "POST", "/Shelf", "", _json, b'{"PartitionKey":"p","RowKey":"r"}'),
)
_later: tuple[_Row, ...] = (
    ("blob", "PUT", "/", "restype=service&comp=properties", {}, properties),
    ("blob", "PUT", "/shelf/page", "comp=page", _first_page, bytes(512)),
    ("blob", "PUT", "/shelf/page", "comp=snapshot", {}, b""),
    ("blob", "PUT", "/shelf/leased", "", _block, b"data"),
    ("blob", "PUT", "/shelf/leased", "comp=lease", _lease, b""),
    ("blob", "PUT", "/shelf/gone", "", _block, b"data"),
    ("blob", "PUT", "/shelf/gone", "comp=snapshot", {}, b""),
    ("blob", "DELETE", "/shelf/gone", "", {"x-ms-delete-snapshots": "include"}, b""),
    ("blob", "PUT", "/shelf/copied", "", _elsewhere, b""),
    ("blob", "PUT", "/other", "restype=container", {}, b""),
    ("blob", "PUT", "/other", "restype=container&comp=lease", _lease, b""),
    ("blob", "PUT", "/passing", "restype=container", {}, b""),
    ("blob", "DELETE", "/passing", "restype=container", {}, b""),
    ("blob", "GET", "/", "comp=list&include=deleted", {}, b""),
    ("blob", "GET", "/shelf", "restype=container&comp=list&include=deleted,snapshots", {}, b""),
)
"""What there may be besides, for operations that go on from there."""


async def furnish(target: Target, *, first: bool = False) -> list[Asked]:
    """What was asked for, and answered."""
    found: list[Asked] = []
    for wanted in _requests(_always):
        answer = await target.ask(wanted)
        assert answer is not None
        assert not first or answer.status in (201, 204), (wanted.path, answer)
        found.append((wanted, answer))
    if not first:
        for wanted in _requests(_later):
            answer = await target.ask(wanted)
            assert answer is not None
            found.append((wanted, answer))
    return found


def _requests(rows: tuple[_Row, ...]) -> Iterator[Wanted]:
    for service, method, path, query, headers, body in rows:
        yield Wanted(
            service,
            method,
            f"/{development_name}{path}",
            f"{query}&{signature}".strip("&"),
            {
                "host": "127.0.0.1",
                "x-ms-version": "2025-05-05",
                "content-length": str(len(body)),
                **headers,
            },
            body,
        )
