"""Questions and answers between processes."""

import asyncio
import socket

import pytest

from etagere.app.link import Link, LinkLost


@pytest.fixture
async def ends():
    told = []

    async def answer(command, fields):
        told.append((command, dict(fields)))
        if command == "fail":
            raise ValueError("no good")
        if command == "wait":
            await asyncio.sleep(0.05)
        return {"heard": fields.get("n")}

    one, two = socket.socketpair()
    links = await Link.over(one, answer), await Link.over(two, answer)
    yield *links, told
    for link in links:
        await link.close()


async def test_both_ends_ask_and_answer(ends):
    one, two, told = ends
    answers = await asyncio.gather(
        one.ask("wait", {"n": 1}), one.ask("hear", {"n": 2}), two.ask("hear", {"n": 3})
    )
    assert answers == [{"heard": 1}, {"heard": 2}, {"heard": 3}]
    assert len(told) == 3


async def test_a_failure_is_told_and_the_link_goes_on(ends, caplog):
    one, _, _ = ends
    with pytest.raises(RuntimeError, match="ValueError: no good"):
        await one.ask("fail")
    assert await one.ask("hear", {"n": 1}) == {"heard": 1}
    assert "command failed" in caplog.text


async def test_long_messages_pass(ends):
    one, _, _ = ends
    assert await one.ask("hear", {"n": "x" * 3_000_000}) == {"heard": "x" * 3_000_000}


async def test_a_lost_link_fails_what_waits_and_what_comes(ends):
    one, two, _ = ends
    waiting = asyncio.create_task(one.ask("wait"))
    await asyncio.sleep(0.01)
    await two.close()
    with pytest.raises(LinkLost):
        await waiting
    assert one.lost.is_set()
    with pytest.raises(LinkLost):
        await one.ask("hear")
