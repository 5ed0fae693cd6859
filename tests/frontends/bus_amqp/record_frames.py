"""Record what SDKs say on the wire, for `tests/protocols/amqp/frames`.

    python tests/frontends/bus_amqp/record_frames.py            # Python
    python tests/frontends/bus_amqp/record_frames.py js DIR     # JS, with @azure/service-bus in DIR

One file a connection: `>` what the client sent, `<` what it got, in the pieces that were read and
written.  Secrets in them are those that every emulator has.
"""

import asyncio
import contextlib
import subprocess
import sys
from pathlib import Path
from typing import Any

from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError
from plain_broker import PlainBroker

from etagere.auth.bus_sas import SasRule, listen, manage, send
from etagere.frontends.bus_amqp.cbs import TokenPolicy
from etagere.frontends.bus_amqp.connection import BusServer
from etagere.servers import amqp
from etagere.servers.real import RealClock, SystemEntropy
from etagere.servers.timers import Timers

folder = Path(__file__).parents[2] / "protocols" / "amqp" / "frames"
root = SasRule("RootManageSharedAccessKey", frozenset((manage, send, listen)), "SAS_KEY_VALUE")
javascript = """
const { ServiceBusClient } = require("@azure/service-bus");
(async () => {
  const client = new ServiceBusClient(process.argv[2]);
  const sender = client.createSender("q");
  await sender.sendMessages({ body: "one", messageId: "1", applicationProperties: { a: 1 } });
  await sender.sendMessages([{ body: "two" }, { body: "three" }]);
  const receiver = client.createReceiver("q");
  for (const settle of ["completeMessage", "abandonMessage", "deadLetterMessage"]) {
    const [message] = await receiver.receiveMessages(1, { maxWaitTimeInMs: 2000 });
    await receiver[settle](message);
  }
  await receiver.peekMessages(2);
  await receiver.receiveMessages(5, { maxWaitTimeInMs: 300 });
  await client.acceptSession("q", "s").then((session) => session.close());
  await client.close();
})().catch((error) => { console.error(error); process.exit(1); });
"""


def python_client(connection_string: str) -> None:
    with ServiceBusClient.from_connection_string(connection_string) as client:
        with client.get_queue_sender("q") as sender:
            sender.send_messages(ServiceBusMessage("one", application_properties={"a": 1}))
            sender.send_messages([ServiceBusMessage("two"), ServiceBusMessage("three")])
            sender.send_messages(ServiceBusMessage("x" * 1_000))
        with client.get_queue_receiver("q", max_wait_time=2) as receiver:
            for settle in ("complete", "abandon", "dead_letter", "defer"):
                (message,) = receiver.receive_messages(max_message_count=1)
                getattr(receiver, f"{settle}_message")(message)
            receiver.peek_messages(max_message_count=2)
        waiting = client.get_queue_receiver("q", session_id=NEXT_AVAILABLE_SESSION, max_wait_time=1)
        with contextlib.suppress(ServiceBusError):  # nobody has a session for it
            waiting.receive_messages()


def recorded(name: str) -> Any:
    """AmqpConnection, written down."""
    numbers = iter(range(100))

    class Recorded(amqp.AmqpConnection):
        def connection_made(self, transport: Any) -> None:
            self.lines: list[str] = []
            self.path = folder / f"{name}_{next(numbers)}.txt"
            write = transport.write

            class Written:
                def __getattr__(self, attribute: str) -> Any:
                    return getattr(transport, attribute)

            proxy: Any = Written()
            proxy.write = lambda data: (self.lines.append("< " + data.hex()), write(data))
            super().connection_made(proxy)

        def data_received(self, data: bytes) -> None:
            self.lines.append("> " + data.hex())
            super().data_received(data)

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self.path.write_text("\n".join(self.lines) + "\n")

    return Recorded


async def main(language: str) -> None:
    folder.mkdir(exist_ok=True)
    clock, entropy = RealClock(), SystemEntropy()
    broker: Any = PlainBroker(clock, entropy, "q")
    policy = TokenPolicy(lambda path, name: root if (path, name) == ("", root.name) else None)
    amqp.AmqpConnection = recorded(language)  # type: ignore[misc]  # only here
    server = amqp.AmqpServer(BusServer(broker, clock, entropy, policy), clock, Timers(clock))
    port = (await server.listen("127.0.0.1", 0)).port
    connection_string = (
        f"Endpoint=sb://localhost:{port};SharedAccessKeyName={root.name};"
        "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
    )
    if language == "js":
        command = ["node", "-e", javascript, "-", connection_string]
        await asyncio.to_thread(subprocess.run, command, cwd=sys.argv[2], check=True)
    else:
        await asyncio.to_thread(python_client, connection_string)
    await server.stop(1)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "python"))
