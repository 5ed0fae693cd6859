import asyncio
import contextlib

import pytest
import uvloop

from etagere.frontends.common.message import Response
from etagere.servers.http import HttpLimits, HttpServer


def pytest_asyncio_loop_factories(config, item):
    return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}


async def eventually(condition):
    for _ in range(4000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never came true")


class Frontend:
    """A frontend for tests: what each path does is a coroutine function of the request."""

    def __init__(self):
        self.requests = []
        self.gone = []
        self.routes = {}

    async def handle(self, request):
        self.requests.append(request)
        route = self.routes.get(request.raw_path)
        if route is not None:
            try:
                return await route(request)
            except BaseException as error:
                self.gone.append(error)
                raise
        body = await request.body.read()
        return Response(200, {"x-path": request.raw_path}, body or b"hello")


class Client:
    """One connection, spoken to in bytes."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer

    async def send(self, *parts):
        for part in parts:
            self.writer.write(part if isinstance(part, bytes) else part.encode())
        await self.writer.drain()

    async def response(self, *, head=False):
        """(status, headers, body) of the next response; None where the connection has ended."""
        try:
            raw = await self.reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as error:
            if error.partial:
                raise
            return None
        first, *lines = raw[:-4].decode("latin-1").split("\r\n")
        version, status, _ = first.split(" ", 2)
        assert version == "HTTP/1.1"
        headers = {}
        for line in lines:
            name, _, value = line.partition(": ")
            assert name.lower() not in headers
            headers[name.lower()] = value
        if head or status in ("100", "101", "204", "304"):
            return int(status), headers, b""
        if headers.get("transfer-encoding") == "chunked":
            return int(status), headers, await self._chunked()
        if "content-length" in headers:
            return (
                int(status),
                headers,
                await self.reader.readexactly(int(headers["content-length"])),
            )
        return int(status), headers, await self.reader.read()

    async def _chunked(self):
        body = b""
        while size := int(await self.reader.readline(), 16):
            body += await self.reader.readexactly(size)
            assert await self.reader.readexactly(2) == b"\r\n"
        assert await self.reader.readexactly(2) == b"\r\n"
        return body

    async def ended(self):
        """Whether the server closes, having said nothing more."""
        try:
            return await asyncio.wait_for(self.reader.read(1), 20) == b""
        except ConnectionError:
            return True

    async def close(self):
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


@pytest.fixture
def frontend():
    return Frontend()


@pytest.fixture
async def serve(frontend):
    """Start a server with some limits; returns a function that opens connections to it."""
    servers = []
    clients = []

    async def start(**options):
        names = HttpLimits.__dataclass_fields__
        limits = {name: options.pop(name) for name in list(options) if name in names}
        server = HttpServer(HttpLimits(**limits))
        listener = await server.listen(frontend, "127.0.0.1", 0, **options)
        servers.append(server)

        async def connect(**kwargs):
            client = Client(*await asyncio.open_connection(listener.host, listener.port, **kwargs))
            clients.append(client)
            return client

        connect.server = server
        connect.port = listener.port
        return connect

    yield start
    for client in clients:
        await client.close()
    for server in servers:
        await server.stop(1)
    await asyncio.sleep(0)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """(certificate, key) files for localhost, signed by itself."""
    import datetime as dt

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("tls")
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return folder / "cert.pem", folder / "key.pem"
