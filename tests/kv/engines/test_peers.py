"""Notifications from one process to the others."""

import asyncio
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from etagere.kv.engines import peers
from etagere.kv.engines.lmdb import LmdbEngine
from etagere.kv.engines.peers import Peers


class Published(list):
    def __init__(self):
        self.more = asyncio.Event()

    def __call__(self, topics):
        self.append(None if topics is None else list(topics))
        self.more.set()

    async def wait_until(self, condition):
        async with asyncio.timeout(10):
            while not condition(self):
                self.more.clear()
                await self.more.wait()

    async def wait_for(self, expected):
        await self.wait_until(lambda heard: heard == expected)


@pytest.fixture
def make(tmp_path):
    made = []

    def make(directory=tmp_path):
        published = Published()
        peer = Peers(directory, published)
        made.append(peer)
        return peer, published

    yield make
    for peer in made:
        peer.close()


async def test_those_who_listen_hear_the_others(make):
    (one, heard_by_one), (two, heard_by_two), (silent, heard_by_silent) = make(), make(), make()
    one.announce([b"nobody is there"])
    one.listen()
    two.listen()
    two.listen()
    one.announce([b"a", b"", b"b" * 5000])
    silent.announce([b"c"])
    await heard_by_two.wait_for([[b"a", b"", b"b" * 5000], [b"c"]])
    await heard_by_one.wait_for([[b"c"]])
    two.announce_anything()
    await heard_by_one.wait_for([[b"c"], None])
    assert heard_by_silent == []


async def test_more_topics_than_fit_are_anything(make):
    (one, _), (two, heard) = make(), make()
    two.listen()
    one.announce([b"%d" % n * 1000 for n in range(100)])
    one.announce([b"x" * 100_000])
    await heard.wait_for([None, None])


async def test_who_cannot_keep_up_is_told_that_anything_happened(make):
    (one, _), (two, heard) = make(), make()
    two.listen()
    for n in range(5000):
        one.announce([b"%d" % n])
    await heard.wait_until(lambda heard: None in heard)
    count = len(heard) - 1
    assert heard == [*([b"%d" % n] for n in range(count)), None]
    one.announce([b"after"])
    await heard.wait_for([*heard[: count + 1], [b"after"]])


async def test_those_who_come_and_go_within_a_moment(make):
    one, _ = make()
    for _ in range(20):
        two, heard = make()
        two.listen()
        one.announce([b"a"])
        await heard.wait_for([[b"a"]])
        two.close()
        one.announce([b"b"])


async def test_what_killed_processes_leave_is_removed(make, tmp_path):
    (one, _), (two, heard) = make(), make()
    two.listen()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as left:
        left.bind(str(tmp_path / "peers" / "left"))
    one.announce([b"a"])
    await heard.wait_for([[b"a"]])
    assert not (tmp_path / "peers" / "left").exists()


async def test_long_directories(make, tmp_path):
    directory = tmp_path / ("long" * 20) / ("long" * 20)
    directory.mkdir(parents=True)
    (one, _), (two, heard) = make(directory), make(directory)
    two.listen()
    one.announce([b"a"])
    await heard.wait_for([[b"a"]])
    two.close()
    instead = peers._short(directory / "peers")
    assert len(str(instead)) < 80
    instead.rmdir()


async def test_where_no_socket_can_be_bound_nothing_breaks(make):
    one, _ = make(Path("/proc"))
    one.listen()
    one.announce([b"a"])


async def test_a_watcher_is_woken_by_another_process(tmp_path, clock):
    engine = LmdbEngine.open(tmp_path, clock=clock)
    script = (
        "import asyncio, sys\n"
        "from etagere.kv.engines.lmdb import LmdbEngine\n"
        "from etagere.kv.tuples import pack\n"
        "class Clock:\n"
        "    def now(self): return 5\n"
        "async def body(tx):\n"
        "    tx.put(pack('part'), b'a', b'')\n"
        "    tx.notify(b'topic')\n"
        "async def main():\n"
        "    engine = LmdbEngine.open(sys.argv[1], clock=Clock())\n"
        "    await engine.write((pack('part'),), body)\n"
        "    await engine.close()\n"
        "asyncio.run(main())\n"
    )
    async with engine.watch(b"topic") as signal, engine.watch(b"other") as other:
        command = [sys.executable, "-c", script, str(tmp_path)]
        await asyncio.gather(
            asyncio.wait_for(signal.wait(), 30),
            asyncio.to_thread(subprocess.run, command, check=True),
        )
        waiting = asyncio.create_task(other.wait())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        waiting.cancel()
    await engine.close()
    assert list((tmp_path / "peers").iterdir()) == []


async def test_a_place_that_somebody_else_made_is_not_used(make, tmp_path, monkeypatch):
    """A long path's stand-in has a name that everybody can work out, where everybody may write."""
    with tempfile.TemporaryDirectory() as temporary:  # shorter than pytest's
        monkeypatch.setattr(peers.tempfile, "gettempdir", lambda: temporary)
        await meet_in(Path(temporary), make, tmp_path, monkeypatch)


async def meet_in(temporary, make, tmp_path, monkeypatch):
    long = tmp_path / ("long" * 40)
    stand_in = peers._short(long / "peers")
    assert stand_in.parent == temporary
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("precious")
    stand_in.symlink_to(precious)
    (one, _), (two, heard) = make(long), make(long)
    one.listen()
    two.listen()
    one.announce([b"a"])
    assert [path.name for path in precious.iterdir()] == ["file"]
    stand_in.unlink()
    two.listen()
    (stand_in / "file").write_text("no socket of ours")
    one.announce([b"b"])
    await heard.wait_for([[b"b"]])
    assert (stand_in / "file").exists()
    monkeypatch.setattr(peers.os, "getuid", lambda: stand_in.stat().st_uid + 1)
    one.announce([b"c"])
    one.listen()
    await asyncio.sleep(0.05)
    assert heard == [[b"b"]]
