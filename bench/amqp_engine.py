"""CPU that the AMQP engine takes for a message: in unsettled, out in peek-lock, accepted both ways.

    python bench/amqp_engine.py [--messages N] [--profile] [--cut BYTES]

In memory, without sockets, store or broker.  The clients' bytes are made beforehand.
"""

import argparse
import cProfile
import pstats
import struct
import time

from etagere.base.clock import Timestamp
from etagere.frontends.bus_amqp.messages import read_message, write_head
from etagere.protocols.amqp.commands import (
    AcceptLink,
    GrantCredit,
    SaslDecision,
    SendTransfer,
    SettleReceived,
    SettleSent,
)
from etagere.protocols.amqp.composites import Composite, encode_composite
from etagere.protocols.amqp.connection import Connection, amqp_header, sasl_header
from etagere.protocols.amqp.events import (
    CreditGranted,
    DispositionReceived,
    LinkAttached,
    SaslShown,
    TransferReceived,
    TransfersReceived,
)
from etagere.protocols.amqp.limits import Limits
from etagere.protocols.amqp.links import Link
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
from etagere.services.bus.messages import Delivery, MessageState

now = Timestamp(17_000_000_000_000_000)
until = Timestamp(now + 600_000_000)


def frame(performative: Composite, payload: bytes = b"", kind: int = 0) -> bytes:
    body = encode_composite(performative) + payload
    return struct.pack(">IBBH", 8 + len(body), 2, kind, 0) + body


def connected(*, receiver: bool) -> tuple[Connection, Link]:
    connection = Connection("bench", Limits(incoming_window_transfers=2**31), now)
    connection.receive_data(
        sasl_header
        + frame(SaslInit(Symbol("ANONYMOUS"), b""), kind=1)
        + amqp_header
        + frame(Open("peer"))
        + frame(Begin(None, 0, 2**31, 2**31))
        + frame(Attach("link", 0, receiver, 0, 1, Source("q"), Target("q"))),
        now,
    )
    link = None
    while (event := connection.next_event()) is not None:
        if isinstance(event, SaslShown):
            connection.send(SaslDecision(approved=True))
        elif isinstance(event, LinkAttached):
            link = event.link
            connection.send(AcceptLink(link, Source("q"), Target("q"), 262_144))
    assert link is not None
    connection.data_to_send()
    return connection, link


def run(count: int, read: int, body: int) -> float:
    """Seconds of CPU."""
    source, in_link = connected(receiver=False)
    sink, out_link = connected(receiver=True)
    source.send(GrantCredit(in_link, 2**31))
    sink.receive_data(frame(Flow(1, 2**31, 0, 2**31, 0, 0, 2**31 - 1)), now)
    assert isinstance(sink.next_event(), CreditGranted)
    message = (
        encode_composite(Header(durable=True))
        + encode_composite(Properties("0123456789abcdef0123456789abcdef"))
        + section(0x74, {"one": 1, "two": "2"})
        + section(0x75, bytes(body))
    )
    sent = b"".join(
        frame(Transfer(0, number, struct.pack(">I", number), 0, False), message)
        for number in range(count)
    )
    reads = [sent[at : at + read] for at in range(0, len(sent), read)]
    # As Go and Python do it: one disposition a message.
    outcomes = [frame(Disposition(True, one, one, False, accepted)) for one in range(count)]
    number = 0
    written = 0
    acknowledged = 0
    started = time.process_time()
    for data in reads:
        source.receive_data(data, now)
        while (event := source.next_event()) is not None:
            assert isinstance(event, TransferReceived | TransfersReceived)
            for one in event.each() if isinstance(event, TransfersReceived) else (event,):
                stored = read_message(one.payload, str)
                delivery = Delivery(
                    stored.tail, stored.header, stored.delivery_annotations, stored.annotations,
                    number, now, number, 0, stored.ttl_ms, MessageState.active,
                    struct.pack(">IIQ", 1, 2, number), until, None, None, None, None,
                )  # fmt: skip
                number += 1
                source.send(SettleReceived(in_link, one.delivery_id, accepted))
                sink.send(
                    SendTransfer(
                        out_link,
                        delivery.lock_token or b"",
                        write_head(delivery),
                        delivery.tail,
                        settled=False,
                        context=delivery.lock_token,
                    )
                )
        written += len(source.data_to_send()) + len(sink.data_to_send())
        if number > acknowledged:
            dispositions = b"".join(outcomes[acknowledged:number])
            acknowledged = number
            sink.receive_data(dispositions, now)
            while (answer := sink.next_event()) is not None:
                assert isinstance(answer, DispositionReceived)
                sink.send(SettleSent(answer.deliveries, accepted))
            written += len(sink.data_to_send())
    spent = time.process_time() - started
    assert number == acknowledged == count
    assert written > count * body
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--read", type=int, default=65_536, help="bytes a read")
    parser.add_argument("--body", type=int, default=1_024)
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    if arguments.profile:
        profile = cProfile.Profile()
        profile.enable()
        run(arguments.messages, arguments.read, arguments.body)
        profile.disable()
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)
        return
    best = min(run(arguments.messages, arguments.read, arguments.body) for _ in range(3))
    each = best / arguments.messages
    print(f"{each * 1e6:.2f} us of CPU a message, {1 / each:,.0f} messages a second")


if __name__ == "__main__":
    main()
