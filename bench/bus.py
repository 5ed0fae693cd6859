"""Service Bus against brokers that speak AMQP 1.0: the same client, in the same run, interleaved.

    python -m bench.bus [--messages N] [--rounds N] [--backlog N] [--only pass,idle,backlog]

Durable messages of 1 KiB; every send is unsettled and answered once the message is safe, every
delivery is locked and accepted, both pipelined.  The load client is bench/blast.c, compiled here.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench import brokers
from bench.brokers import Broker
from bench.peers import Missing, _children, resident_bytes

_ways: Final = ((1, 1), (20, 20))
_idle_connections: Final = 1_000
_idle_seconds: Final = 20
_warm_seconds: Final = 12
_rest_seconds: Final = 1.5
"""Before each pass: what the one before left to be done (compaction, garbage) is its own affair."""
_ticks_per_second: Final = os.sysconf("SC_CLK_TCK")


class Passed(NamedTuple):
    per_second: float
    cpu_microseconds: float
    """Of the server, for a message."""
    wrong: int
    """Sends that were refused, and deliveries that came again."""


@contextmanager
def _client() -> Iterator[Path]:
    compiler = shutil.which("cc")
    if compiler is None:
        raise Missing("the load client needs a C compiler (cc)")
    with tempfile.TemporaryDirectory(prefix="etagere-blast-") as folder:
        program = Path(folder) / "blast"
        source = Path(__file__).parent / "blast.c"
        subprocess.run([compiler, "-O2", "-o", str(program), str(source)], check=True)
        yield program


def _command(client: Path, broker: Broker, what: str, *arguments: object) -> list[str]:
    return [
        str(client), "127.0.0.1", str(broker.port), what, *map(str, arguments), *broker.login,
    ]  # fmt: skip


def _run(
    client: Path,
    broker: Broker,
    queue: str,
    count: int,
    senders: int,
    receivers: int,
    **options: Any,
) -> dict[str, Any]:
    address = broker.prefix + queue
    command = _command(client, broker, "pass", address, address, count, senders, receivers)
    command += [f"{name}={value}" for name, value in {"seconds": 300, **options}.items()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{broker.name}: {done.stderr.strip()}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _cpu_seconds(broker: Broker) -> float:
    """Of the server's processes so far."""
    total = 0
    waiting = [broker.process.pid]
    while waiting:
        pid = waiting.pop()
        waiting += _children(pid)
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / _ticks_per_second


def _pass(
    client: Path, broker: Broker, queue: str, count: int, each: int, receivers: int
) -> Passed:
    before = _cpu_seconds(broker)
    done = _run(client, broker, queue, count, each, receivers)
    cpu = _cpu_seconds(broker) - before
    return Passed(count / done["seconds"], cpu / count * 1e6, done["refused"] + done["redelivered"])


def _warm(client: Path, broker: Broker, queue: str, count: int) -> None:
    """Compilers, caches, files that grow: Artemis gets twice as fast in its first ten seconds."""
    until = time.monotonic() + _warm_seconds
    while time.monotonic() < until:
        for each, receivers in _ways:
            _pass(client, broker, queue, count, each, receivers)


def passing(client: Path, count: int, rounds: int) -> None:
    """Messages a second through one queue: sent, locked, accepted."""
    starts: dict[str, tuple[Callable[[list[str]], AbstractContextManager[Broker]], str]] = {
        "etagere": (brokers.etagere, "bench"),
        "RabbitMQ, classic": (brokers.rabbitmq, "bench"),
        "RabbitMQ, quorum": (brokers.rabbitmq, "quorum"),
        "Artemis": (brokers.artemis, "bench"),
    }
    with ExitStack() as stack:
        running: dict[object, Broker | None] = {}
        for start, _ in starts.values():
            if start not in running:
                try:
                    running[start] = stack.enter_context(start(["bench", "quorum"]))
                except Missing as missing:
                    running[start] = None
                    print(f"left out: {missing}")
        sides = {name: (running[start], queue) for name, (start, queue) in starts.items()}
        found: dict[tuple[str, int], list[Passed]] = {}
        for broker, queue in sides.values():
            if broker is not None:
                _warm(client, broker, queue, count)
        for _ in range(rounds):
            for each, receivers in _ways:
                for name, (broker, queue) in sides.items():
                    if broker is not None:
                        time.sleep(_rest_seconds)
                        passed = _pass(client, broker, queue, count, each, receivers)
                        found.setdefault((name, each), []).append(passed)
    _print(found, count, rounds)


def _print(found: dict[tuple[str, int], list[Passed]], count: int, rounds: int) -> None:
    print(f"\nOne queue, {count} durable messages of 1 KiB, medians of {rounds} interleaved rounds")
    for each, receivers in _ways:
        print(f"\n{f'{each} sender(s), {receivers} receiver(s)':28}{'msg/s':>9}"
              f"{'server CPU us/msg':>20}{'etagere is':>14}")  # fmt: skip
        ours = statistics.median(passed.per_second for passed in found["etagere", each])
        for (name, ways), passes in found.items():
            if ways != each:
                continue
            rate = statistics.median(passed.per_second for passed in passes)
            cpu = statistics.median(passed.cpu_microseconds for passed in passes)
            ratio = "" if name == "etagere" else f"{ours / rate:.2f} times"
            wrong = sum(passed.wrong for passed in passes)
            note = f"   refused or delivered again: {wrong}" if wrong else ""
            print(f"{name:28}{rate:9.0f}{cpu:20.1f}{ratio:>14}{note}")


def _memory(broker: Broker) -> str:
    """Resident, and how much of that is no page of the store's file, which the system may drop."""
    status = Path(f"/proc/{broker.process.pid}/status").read_text()
    own = next(line for line in status.splitlines() if line.startswith("RssAnon")).split()[1]
    return f"{resident_bytes(broker.process) / 1e6:.0f} MB ({int(own) / 1e3:.0f} MB its own)"


def idle(client: Path) -> None:
    """A thousand connections, each with a receiver that waits."""
    with brokers.etagere(["bench"]) as broker:
        alone = _memory(broker)
        command = _command(
            client, broker, "idle", "-", broker.prefix + "bench", 0, 0, _idle_connections
        )
        holder = subprocess.Popen(
            [*command, "credit=1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert holder.stdout is not None
        if b"ready" not in holder.stdout.readline():
            raise RuntimeError("the connections could not be opened")
        before = _cpu_seconds(broker)
        time.sleep(_idle_seconds)
        share = (_cpu_seconds(broker) - before) / _idle_seconds
        held = _memory(broker)
        holder.communicate()
    print(
        f"\nIdle: {held} resident with {_idle_connections} connections, each with a receiver; "
        f"{alone} without;\n{share:.2%} of a core over {_idle_seconds} s"
    )


def backlog(client: Path, count: int) -> None:
    """Many messages wait; what they cost in memory, and how soon the first is delivered."""
    with brokers.etagere(["bench"]) as broker:
        sent = _run(client, broker, "bench", count, 4, 0, seconds=1800)
        filled = _memory(broker)
        first = _run(client, broker, "bench", 1, 0, 1, credit=1)
        taken = _run(client, broker, "bench", min(count - 2, 50_000), 0, 1)
        after = _memory(broker)
    print(
        f"\nBacklog: {count} messages of 1 KiB, sent at {count / sent['send_seconds']:.0f}/s; "
        f"{filled} resident,\n{after} after {taken['received']} of them were taken; "
        f"the first came {first['first_seconds'] * 1000:.1f} ms after the connection was begun"
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.bus", description=__doc__)
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--backlog", type=int, default=1_000_000)
    parser.add_argument("--only", default="pass,idle,backlog")
    given = parser.parse_args(arguments)
    wanted = given.only.split(",")
    try:
        with _client() as client:
            if "pass" in wanted:
                passing(client, given.messages, given.rounds)
            if "idle" in wanted:
                idle(client)
            if "backlog" in wanted:
                backlog(client, given.backlog)
    except Missing as missing:
        print(f"Service Bus is not measured: {missing}")


if __name__ == "__main__":
    main()
