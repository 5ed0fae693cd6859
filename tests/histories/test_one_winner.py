"""Of many who ask at once one is served, and the others are told so (Azure: 'Managing concurrency
in Blob storage', 'Lease Blob')."""

import pytest

from .competitors import Competitors, statuses

competitors_each = 16
rounds = 12

pytestmark = pytest.mark.slow


async def test_of_writers_with_one_etag_one_wins(server: str) -> None:
    async with Competitors(server, competitors_each) as crowd:
        first = await crowd.clients[0].put("matched", b"first")
        etag = first.etag
        for number in range(rounds):
            replies = await crowd.all(
                lambda n, client, etag=etag, number=number: client.put(
                    "matched", f"{number}/{n}".encode(), If_Match=etag
                )
            )
            assert statuses(replies) == [201] + [412] * (competitors_each - 1)
            (winner,) = [n for n, reply in enumerate(replies) if reply.status == 201]
            assert {reply.code for reply in replies if reply.status == 412} == {"ConditionNotMet"}
            found = await crowd.clients[number % competitors_each].get("matched")
            assert (found.body, found.etag) == (f"{number}/{winner}".encode(), replies[winner].etag)
            etag = found.etag


async def test_of_writers_of_every_kind_one_wins(server: str) -> None:
    """Blobs put whole, lists committed, metadata set, and deletions, all with the same ETag."""
    async with Competitors(server, competitors_each) as crowd:
        for number in range(rounds):
            name = f"kinds{number}"
            etag = (await crowd.clients[0].put(name, b"first")).etag
            await crowd.clients[1].stage(name, "only", b"listed")

            async def write(n: int, client, name=name, etag=etag):
                match n % 4:
                    case 0:
                        return await client.put(name, b"whole", If_Match=etag)
                    case 1:
                        return await client.commit(name, ["only"], If_Match=etag)
                    case 2:
                        return await client.ask(
                            "PUT", f"/{name}", "comp=metadata", b"", If_Match=etag, x_ms_meta_a="b"
                        )
                    case _:
                        return await client.ask("DELETE", f"/{name}", If_Match=etag)

            replies = await crowd.all(write)
            won = [reply for reply in replies if reply.status < 300]
            assert len(won) == 1, statuses(replies)
            lost = {(reply.status, reply.code) for reply in replies if reply.status >= 300}
            # Whoever comes after a deletion finds nothing; a list may find its block discarded.
            assert lost <= {(412, "ConditionNotMet"), (404, "BlobNotFound")}


async def test_of_creators_one_creates(server: str) -> None:
    async with Competitors(server, competitors_each) as crowd:
        for number in range(rounds):
            size = (10, 5000, 200_000)[number % 3]
            replies = await crowd.all(
                lambda n, client, number=number, size=size: client.put(
                    f"created{number}", bytes([n]) * size, If_None_Match="*"
                )
            )
            assert statuses(replies) == [201] + [409] * (competitors_each - 1)
            assert {reply.code for reply in replies if reply.status == 409} == {"BlobAlreadyExists"}
            (winner,) = [n for n, reply in enumerate(replies) if reply.status == 201]
            found = await crowd.clients[0].get(f"created{number}")
            assert found.body == bytes([winner]) * size


async def test_of_acquirers_one_has_the_lease(server: str) -> None:
    async with Competitors(server, competitors_each) as crowd:
        await crowd.clients[0].put("leased", b"first")
        for number in range(rounds):

            async def acquire(_: int, client):
                return await client.ask(
                    "PUT",
                    "/leased",
                    "comp=lease",
                    b"",
                    x_ms_lease_action="acquire",
                    x_ms_lease_duration="60",
                )

            replies = await crowd.all(acquire)
            assert statuses(replies) == [201] + [409] * (competitors_each - 1)
            lost = [reply for reply in replies if reply.status == 409]
            assert {reply.code for reply in lost} == {"LeaseAlreadyPresent"}
            (lease,) = [r.headers["x-ms-lease-id"] for r in replies if r.status == 201]

            async def write(n: int, client, lease=lease):
                return await client.put(
                    "leased", str(n).encode(), **({"x_ms_lease_id": lease} if n == 3 else {})
                )

            written = await crowd.all(write)
            assert [n for n, reply in enumerate(written) if reply.status == 201] == [3]
            released = await crowd.clients[number % competitors_each].ask(
                "PUT",
                "/leased",
                "comp=lease",
                b"",
                x_ms_lease_action="release",
                x_ms_lease_id=lease,
            )
            assert released.status == 200


async def test_500_competing_updates_lose_none(server: str) -> None:
    """A counter in a loop of Get and conditional Put: every number is written once."""
    goal, competitors = 500, 32
    async with Competitors(server, competitors) as crowd:
        await crowd.clients[0].put("counter", b"0")
        refused = 0

        async def count(_: int, client) -> list[int]:
            nonlocal refused
            mine: list[int] = []
            while True:
                found = await client.get("counter")
                number = int(found.body)
                if number >= goal:
                    return mine
                reply = await client.put("counter", str(number + 1).encode(), If_Match=found.etag)
                if reply.status == 201:
                    mine.append(number + 1)
                else:
                    assert (reply.status, reply.code) == (412, "ConditionNotMet")
                    refused += 1

        histories = await crowd.all(count)
        assert sorted(n for mine in histories for n in mine) == list(range(1, goal + 1))
        assert all(mine == sorted(mine) for mine in histories)
        assert (await crowd.clients[0].get("counter")).body == str(goal).encode()
        assert refused > 0, "nobody competed"


async def test_appenders_have_places_of_their_own(server: str) -> None:
    """Offsets follow each other without a gap, and each block is where it was said to be."""
    sizes = (10, 3000, 70_000)
    async with Competitors(server, competitors_each) as crowd:
        created = await crowd.clients[0].ask("PUT", "/log", "", b"", x_ms_blob_type="AppendBlob")
        assert created.status == 201
        blocks: dict[int, bytes] = {}

        async def append(n: int, client) -> None:
            for number in range(rounds):
                block = f"{n:02d}.{number:02d}".encode() * (sizes[(n + number) % 3] // 5)
                reply = await client.ask("PUT", "/log", "comp=appendblock", block)
                assert reply.status == 201
                offset = int(reply.headers["x-ms-blob-append-offset"])
                assert offset not in blocks
                blocks[offset] = block

        await crowd.all(append)
        end = 0
        for offset in sorted(blocks):
            assert offset == end
            end += len(blocks[offset])
        found = await crowd.clients[0].get("log")
        assert found.body == b"".join(blocks[offset] for offset in sorted(blocks))
        count = found.headers["x-ms-blob-committed-block-count"]
        assert int(count) == competitors_each * rounds


async def test_of_appenders_at_one_place_one_is_there(server: str) -> None:
    async with Competitors(server, competitors_each) as crowd:
        await crowd.clients[0].ask("PUT", "/places", "", b"", x_ms_blob_type="AppendBlob")
        for number in range(rounds):
            replies = await crowd.all(
                lambda n, client, number=number: client.ask(
                    "PUT", "/places", "comp=appendblock", bytes([n]) * 100,
                    x_ms_blob_condition_appendpos=str(number * 100),
                )
            )  # fmt: skip
            assert statuses(replies) == [201] + [412] * (competitors_each - 1)
            codes = {reply.code for reply in replies if reply.status == 412}
            assert codes == {"AppendPositionConditionNotMet"}
            (winner,) = [n for n, reply in enumerate(replies) if reply.status == 201]
            found = await crowd.clients[winner].get("places")
            assert found.body[number * 100 :] == bytes([winner]) * 100


async def test_of_acquirers_of_a_container_one_has_the_lease(server: str) -> None:
    async with Competitors(server, competitors_each) as crowd:
        for _ in range(rounds):

            async def act(_: int, client, action: str = "acquire", **headers: str):
                return await client.ask(
                    "PUT", "", "restype=container&comp=lease", b"",
                    x_ms_lease_action=action, **headers,
                )  # fmt: skip

            async def acquire(n: int, client):
                return await act(n, client, x_ms_lease_duration="-1")

            replies = await crowd.all(acquire)
            assert statuses(replies) == [201] + [409] * (competitors_each - 1)
            (lease,) = [r.headers["x-ms-lease-id"] for r in replies if r.status == 201]
            released = await act(0, crowd.clients[0], "release", x_ms_lease_id=lease)
            assert released.status == 200


async def test_of_stale_lists_none_is_committed(server: str) -> None:
    """Each commits a list made of what was there and one more block, under the ETag that it saw:
    nobody's block is lost, and of each round one is added."""
    async with Competitors(server, competitors_each) as crowd:
        etag = (await crowd.clients[0].commit("grown", [])).etag
        grown: list[str] = []
        for number in range(rounds):

            async def extend(n: int, client, number=number, etag=etag, before=tuple(grown)):
                block = f"{number}-{n}"
                staged = await client.stage("grown", block, block.ljust(8).encode())
                assert staged.status == 201
                return await client.commit("grown", [block], before=before, If_Match=etag)

            replies = await crowd.all(extend)
            won = [n for n, reply in enumerate(replies) if reply.status == 201]
            assert len(won) == 1, statuses(replies)
            lost = {(reply.status, reply.code) for reply in replies if reply.status != 201}
            assert lost <= {(412, "ConditionNotMet"), (400, "InvalidBlockList")}
            grown.append(f"{number}-{won[0]}")
            etag = replies[won[0]].etag
            found = await crowd.clients[number % competitors_each].get("grown")
            assert found.body == b"".join(block.ljust(8).encode() for block in grown)
