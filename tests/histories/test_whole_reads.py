"""Readers of a blob that is being overwritten see one version or another, never parts of two."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from .competitors import Client, Competitors
from .contents import content, line_bytes, version_of, version_within

readers = 6
writers = 3

pytestmark = pytest.mark.slow

Write = Callable[[Client, str, str], Awaitable[str | None]]
"""Writes a version to a name; its ETag, or nothing if it was overtaken."""


async def put_inline(client: Client, name: str, version: str) -> str | None:
    reply = await client.put(name, content(version, 9_000 + len(version)))
    assert reply.status == 201
    return reply.etag


async def put_large(client: Client, name: str, version: str) -> str | None:
    reply = await client.put(name, content(version, 4_000_000 + 1000 * (int(version[1:]) % 7)))
    assert reply.status == 201
    return reply.etag


async def put_list(client: Client, name: str, version: str) -> str | None:
    """Blocks of which some live in the store and some in extents."""
    whole = content(version, 1_300_000)
    cuts = [0, 700, 300_000, 310_000, 1_250_000, len(whole)]
    blocks = [f"{version}-{n}" for n in range(len(cuts) - 1)]
    for n, block in enumerate(blocks):
        assert (await client.stage(name, block, whole[cuts[n] : cuts[n + 1]])).status == 201
    reply = await client.commit(name, blocks)
    # Another's list discards what is staged: whoever was overtaken begins again.
    assert (reply.status, reply.code) in ((201, ""), (400, "InvalidBlockList"))
    return reply.etag if reply.status == 201 else None


async def put_any(client: Client, name: str, version: str) -> str | None:
    chosen = (put_inline, put_large, put_list)[int(version[1:]) % 3]
    return await chosen(client, name, version)


@pytest.mark.parametrize(
    ("write", "goal"), [(put_inline, 400), (put_large, 60), (put_list, 30), (put_any, 60)]
)
async def test_no_reader_sees_parts_of_two_versions(server: str, write: Write, goal: int) -> None:
    name = f"overwritten-{write.__name__}"
    written: dict[str, str] = {}
    """Versions by ETag."""
    seen: list[tuple[str, str]] = []
    numbered = 0
    async with Competitors(server, writers + readers) as crowd:
        await put_inline(crowd.clients[0], name, "v0")
        over = asyncio.Event()

        async def overwrite(client: Client) -> None:
            nonlocal numbered
            while len(written) < goal:
                numbered += 1
                version = f"v{numbered}"
                etag = await write(client, name, version)
                if etag is not None:
                    written[etag] = version

        async def read(client: Client) -> None:
            while not over.is_set():
                found = await client.get(name)
                assert found.status == 200
                version = version_of(found.body)
                assert version is not None, f"{len(found.body)} bytes that nobody wrote"
                seen.append((found.etag, version))

        async def read_ranges(client: Client) -> None:
            """From somewhere on: across blocks, and across the chunks that extents have."""
            begin = 0
            while not over.is_set():
                begin = (begin + 7_777 * line_bytes) % 1_200_000 // line_bytes * line_bytes
                found = await client.get(name, x_ms_range=f"bytes={begin}-{begin + 799_999}")
                if found.status == 416:
                    begin = -7_777 * line_bytes  # this version ends before
                    continue
                assert found.status == 206
                within = version_within(found.body)
                assert within is not None, f"{len(found.body)} bytes of no one version"
                version, size = within
                end = min(begin + 800_000, size)
                assert found.headers["content-range"] == f"bytes {begin}-{end - 1}/{size}"
                assert len(found.body) == end - begin
                seen.append((found.etag, version))

        reading = [
            asyncio.create_task((read if number % 2 else read_ranges)(client))
            for number, client in enumerate(crowd.clients[writers:])
        ]
        try:
            await asyncio.gather(*(overwrite(client) for client in crowd.clients[:writers]))
        finally:
            over.set()
            await asyncio.gather(*reading)
    for etag, version in seen:
        assert written.get(etag, "v0") == version
    assert len({etag for etag, _ in seen}) > 5, "the readers saw too little"
