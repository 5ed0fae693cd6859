"""Record what Go's and Java's SDKs say on the wire, as `record_frames` does for the others.

    python tests/frontends/bus_amqp/record_others.py go PROGRAM SCENARIO...
    python tests/frontends/bus_amqp/record_others.py java CLASSPATH SCENARIO...

They are programs of `tests/sdk`, built by running their tests once; between them and `etagere
serve` stands a proxy that writes down AMQP in pieces as they come, and lets HTTPS pass.
"""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from etagere.testing import ServerProcess

folder = Path(__file__).parents[2] / "protocols" / "amqp" / "frames"
password = "trusted"


def wait_until_served(port: int) -> None:
    """`ready` means that the port is bound; an answer means that the authority's file is there."""
    with socket.create_connection(("127.0.0.1", port), 30) as probe:
        probe.sendall(b"AMQP\x03\x01\x00\x00")
        assert probe.recv(8)


class Proxy:
    def __init__(self, name: str, port: int) -> None:
        self._name = name
        self._port = port
        self._count = 0

    async def connected(self, near: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
        far, far_out = await asyncio.open_connection("127.0.0.1", self._port)
        first = await near.read(65_536)
        lines = ["> " + first.hex()]
        far_out.write(first)
        await asyncio.gather(carry(near, far_out, ">", lines), carry(far, near_out, "<", lines))
        if first.startswith(b"AMQP"):
            path = folder / f"{self._name}_{self._count}.txt"
            path.write_text("\n".join(lines) + "\n")
            self._count += 1


async def carry(source: Any, sink: Any, mark: str, lines: list[str]) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(65_536):
            lines.append(f"{mark} {data.hex()}")
            sink.write(data)
    with contextlib.suppress(OSError):
        sink.close()


async def main(language: str, program: str, scenarios: list[str]) -> None:
    data = Path(tempfile.mkdtemp()) / "data"
    with ServerProcess(("--data", str(data), "--services", "bus")) as server:
        port = int(server.urls["amqp"].rpartition(":")[2])
        wait_until_served(port)
        proxy = Proxy(language, port)
        listening = await asyncio.start_server(proxy.connected, "127.0.0.1", 0)
        near = str(listening.sockets[0].getsockname()[1])
        authority = data / "certificates" / "authority.pem"
        text = (
            f"Endpoint=sb://localhost:{near};SharedAccessKeyName=RootManageSharedAccessKey;"
            "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true"
        )
        command = [program, text]
        if language == "java":
            store = data / "trusted.p12"
            keytool = ["keytool", "-importcert", "-noprompt", "-alias", "a", "-file", authority]
            options = ["-keystore", store, "-storetype", "PKCS12", "-storepass", password]
            await asyncio.to_thread(subprocess.run, [*keytool, *options], check=True)
            trust = [
                f"-Djavax.net.ssl.trustStore={store}",
                f"-Djavax.net.ssl.trustStorePassword={password}",
            ]
            command = ["java", *trust, "-cp", program, "Bus", text, near]
        await asyncio.to_thread(
            subprocess.run,
            [*command, *scenarios],
            check=True,
            env={**os.environ, "SSL_CERT_FILE": str(authority)},
        )
        await asyncio.sleep(1)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
