"""What a message costs the broker in CPU time: `python -m bench.bus_cpu [--pairs N] [--asking]`.

Clients without sockets in the same process: their bytes are made beforehand, sent as fast as they
are answered, 500 at a time, and every delivery is accepted (and settled, or with `--asking` to be
answered).  Everything else is as in a server:
connections, broker, an LMDB store that is synced.  All threads' time is counted, so the figures
mean something on a machine that does other work meanwhile; of several rounds the cheapest counts.

    --profile    cProfile's view of the event loop's thread
"""

import argparse
import asyncio
import cProfile
import gc
import pstats
import struct
import tempfile
import time
from typing import Any, Final, cast

from etagere.app import runtime
from etagere.base.clock import seconds
from etagere.frontends.bus_amqp.cbs import TokenPolicy
from etagere.frontends.bus_amqp.connection import BusServer
from etagere.kv.engines.lmdb import LmdbEngine
from etagere.protocols.amqp.composites import Composite, encode_composite
from etagere.protocols.amqp.connection import amqp_header, sasl_header
from etagere.protocols.amqp.outcomes import Source, Target, accepted
from etagere.protocols.amqp.performatives import (
    Attach,
    Begin,
    Disposition,
    Flow,
    Open,
    SaslInit,
    Transfer,
)
from etagere.protocols.amqp.sections import Header, Properties, section
from etagere.protocols.amqp.values import Symbol
from etagere.servers.amqp import AmqpConnection, AmqpServer
from etagere.servers.real import RealClock, SystemEntropy
from etagere.servers.timers import Timers
from etagere.services.bus.broker import Broker
from etagere.services.bus.descriptions import QueueDescription
from etagere.services.bus.sections import AmqpSections

_window: Final = 500
_read_bytes: Final = 256_000
"""As uvloop hands them over."""
_body: Final = bytes(range(97, 123)) * 39 + b"0123456789"
_transfer_code: Final = 0x14
_disposition_code: Final = 0x15


def _frame(performative: Composite, payload: bytes = b"", kind: int = 0) -> bytes:
    body = encode_composite(performative) + payload
    return struct.pack(">IBBH", 8 + len(body), 2, kind, 0) + body


def _hello(*, receiver: bool) -> bytes:
    return (
        sasl_header
        + _frame(SaslInit(Symbol("ANONYMOUS"), b""), kind=1)
        + amqp_header
        + _frame(Open("bench"))
        + _frame(Begin(None, 0, 2**31 - 1, 2**31 - 1))
        + _frame(Attach("link", 0, receiver, 0, 0, Source("bench"), Target("bench")))
    )


class _Wire:
    """An asyncio transport whose other end is a client in the same process."""

    def __init__(self, server: AmqpServer, *, receiver: bool) -> None:
        self.loop = asyncio.get_running_loop()
        self.connection = AmqpConnection(server)
        self.connection.connection_made(cast("asyncio.BaseTransport", self))
        self.connection.data_received(_hello(receiver=receiver))

    def write(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            size = int.from_bytes(data[at : at + 4], "big")
            if data[at : at + 4] == b"AMQP":
                size = 8
            elif size > 10:
                self.said(data[at + 10], data, at, size)
            at += size

    def said(self, code: int, data: bytes, at: int, size: int) -> None:
        raise NotImplementedError

    def hear(self, data: bytes) -> None:
        self.connection.data_received(data)

    def get_extra_info(self, _name: str, default: Any = None) -> Any:
        return default

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def set_write_buffer_limits(self, high: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        raise AssertionError("the server cannot keep up")


class _Sender(_Wire):
    def __init__(self, server: AmqpServer, *, varied: bool) -> None:
        super().__init__(server, receiver=False)
        self._samples = []
        for number in range(1021 if varied else 1):
            size = 1024 if not varied else 100 + number * 7919 % 1021 * 2
            message = (
                encode_composite(Header(durable=True))
                + encode_composite(Properties("0123456789abcdef"))
                + section(0x75, (_body * 3)[:size])
            )
            sample = _frame(Transfer(0, 2**31, b"tag4", 0, False), message)
            head, _, rest = sample.partition(struct.pack(">I", 2**31))
            middle, _, rest = rest.partition(b"tag4")
            self._samples.append((head, middle, rest))
        self._frames_a_read = _read_bytes // 1200
        self.made: list[bytes] = []
        self.sent = 0
        self.answered = 0
        self._asked = False

    def make(self, count: int) -> None:
        """So many transfers more."""
        first = len(self.made)
        for number in range(first, first + count):
            head, middle, rest = self._samples[number % len(self._samples)]
            n = struct.pack(">I", number)
            self.made.append(head + n + middle + n + rest)

    def send_more(self) -> None:
        self._asked = False
        until = min(self.answered + _window, len(self.made))
        while self.sent < until:
            last = min(self.sent + self._frames_a_read, until)
            data = b"".join(self.made[self.sent : last])
            self.sent = last
            self.hear(data)

    def said(self, code: int, data: bytes, at: int, size: int) -> None:
        del size
        if code != _disposition_code:
            return
        first, last = struct.unpack_from(
            ">IxI", data, at + 16 if data[at + 15] == 0x70 else at + 15
        )
        self.answered += last - first + 1
        if not self._asked:
            self._asked = True
            self.loop.call_soon(self.send_more)


class _Receiver(_Wire):
    def __init__(self, server: AmqpServer, *, asking: bool) -> None:
        super().__init__(server, receiver=True)
        sample = _frame(Disposition(True, 2**31, 2**31, not asking, accepted))
        at = sample.index(struct.pack(">I", 2**31))
        self._before = sample[:at]
        self._between = sample[at + 4 : at + 5]
        self._after = sample[at + 9 :]
        self.received = 0
        self._accepted = 0
        self._granted = 0
        self._asked = False
        self._grant()

    def _grant(self) -> None:
        self._granted = self.received
        self.hear(_frame(Flow(self.received, 2**31 - 1, 0, 2**31 - 1, 0, self.received, _window)))

    def said(self, code: int, data: bytes, at: int, size: int) -> None:
        del data, at, size
        if code != _transfer_code:
            return
        self.received += 1
        if not self._asked:
            self._asked = True
            self.loop.call_soon(self._accept)

    def _accept(self) -> None:
        self._asked = False
        before, between, after = self._before, self._between, self._after
        numbers = [struct.pack(">I", each) for each in range(self._accepted, self.received)]
        self._accepted = self.received
        self.hear(b"".join([before + each + between + each + after for each in numbers]))
        if self.received - self._granted >= _window // 2:
            self._grant()


async def _round(senders: list[_Sender], receivers: list[_Receiver], count: int) -> float:
    """Seconds of CPU for so many messages of each sender."""
    for sender in senders:
        sender.make(count)
    wanted = sum(one.received for one in receivers) + count * len(senders)
    gc.collect()
    started = time.process_time()
    for sender in senders:
        sender.send_more()
    while sum(one.received for one in receivers) < wanted:  # noqa: ASYNC110 - costs nothing
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.02)  # the last of them are being deleted
    return time.process_time() - started


async def _measure(
    folder: str, given: argparse.Namespace, profile: cProfile.Profile | None
) -> list[float]:
    count, pairs = given.messages, given.pairs
    clock, entropy = RealClock(), SystemEntropy()
    engine = LmdbEngine.open(folder, clock=clock, alone=True)
    timers = Timers(clock)
    broker = await Broker.open(engine, clock, entropy, AmqpSections(), timers)
    queue = QueueDescription(name="bench")
    if given.expiring:
        queue = QueueDescription(name="bench", default_ttl=seconds(3600))
    await broker.administration.create(queue)
    policy = TokenPolicy(lambda _path, _name: None, check=False)
    server = AmqpServer(BusServer(broker, clock, entropy, policy), clock, timers)
    senders = [_Sender(server, varied=given.varied) for _ in range(pairs)]
    receivers = [_Receiver(server, asking=given.asking) for _ in range(pairs)]
    runtime.tune()
    await _round(senders, receivers, count // pairs // 4)
    spent = []
    for _ in range(given.rounds):
        if profile is not None:
            profile.enable()
        spent.append(await _round(senders, receivers, count // pairs))
        if profile is not None:
            profile.disable()
    for wire in (*senders, *receivers):
        wire.connection.connection_lost(None)
    await broker.idle()
    await engine.close()
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.bus_cpu", description=__doc__)
    parser.add_argument("--messages", type=int, default=40_000)
    parser.add_argument("--pairs", type=int, default=1, help="of a sender and a receiver")
    parser.add_argument("--asking", action="store_true", help="to be answered what is accepted")
    parser.add_argument(
        "--expiring", action="store_true", help="in an hour, as the emulator's sample has it"
    )
    parser.add_argument("--varied", action="store_true", help="messages of 100 bytes to 2 KiB")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    profile = cProfile.Profile() if given.profile else None
    with tempfile.TemporaryDirectory(prefix="etagere-bench-") as folder:
        spent = runtime.run(_measure(folder, given, profile))
    if profile is not None:
        pstats.Stats(profile).sort_stats("tottime").print_stats(40)
        return
    each = [one / (given.messages // given.pairs * given.pairs) * 1e6 for one in spent]
    print(f"{min(each):.2f} us of CPU a message; rounds: {' '.join(f'{one:.2f}' for one in each)}")


if __name__ == "__main__":
    main()
