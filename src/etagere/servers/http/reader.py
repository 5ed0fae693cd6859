"""Bytes to requests: HTTP/1.1 heads with their limits checked, bodies as pieces.  No socket.

httptools (llhttp, strict) does the parsing.  What it leaves open is closed here: how much of a
head or a trailer may pile up, which targets and framings are served, and what goes on after an
upgrade that nobody took up.
"""

from typing import Final, Protocol

import httptools

from etagere.servers.http.limits import HttpLimits

_names: dict[bytes, str] = {}
"""Names as they were sent, with their lower case: of headers whose case means nothing."""
_names_max: Final = 1024
_caseless: Final = frozenset(
    """
    accept accept-charset accept-encoding accept-language authorization brokerproperties
    cache-control connection content-disposition content-encoding content-language content-length
    content-md5 content-range content-type cookie dataserviceversion date expect from host if-match
    if-modified-since if-none-match if-range if-unmodified-since keep-alive maxdataserviceversion
    max-forwards origin pragma prefer proxy-authorization proxy-connection range referer te trailer
    transfer-encoding upgrade user-agent via warning x-http-method
    access-control-request-headers access-control-request-method
    sec-websocket-extensions sec-websocket-key sec-websocket-protocol sec-websocket-version
    """.split()
)


class Refusal(Exception):  # noqa: N818 - an answer, not an error of ours
    """HTTP that cannot be served: a status, and why, before any frontend sees it."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why


class Head:
    """A request's head, complete."""

    __slots__ = (
        "body_length",
        "expects_continue",
        "has_body",
        "headers",
        "keep_alive",
        "method",
        "path",
        "query",
        "repeated",
        "spelling",
        "upgrade",
        "version_1_0",
    )

    def __init__(self) -> None:
        self.method = ""
        self.path = ""
        """As sent, and in ASCII."""
        self.query = ""
        self.headers: dict[str, str] = {}
        self.repeated: set[str] = set()
        self.spelling: dict[str, str] = {}
        """Names of metadata that were not sent in lower case: their case is part of them."""
        self.version_1_0 = False
        self.keep_alive = False
        self.upgrade = False
        self.expects_continue = False
        self.has_body = False
        self.body_length: int | None = None
        """None for a chunked body."""


class Sink(Protocol):
    def request_begun(self, head: Head) -> bool:
        """A head is complete; whether its upgrade, if it asks for one, is taken up."""
        ...

    def body_piece(self, piece: bytes) -> None: ...

    def request_ended(self) -> None: ...

    def upgraded(self, rest: bytes) -> None:
        """The bytes behind the head of an upgrade that was taken up."""
        ...

    def refused(self, refusal: Refusal) -> None:
        """Nothing after this can be told apart from the mistake; feed no more."""
        ...


class RequestReader:
    def __init__(self, sink: Sink, limits: HttpLimits) -> None:
        self._sink = sink
        self._limits = limits
        self._parser = httptools.HttpRequestParser(self)
        self._head = Head()
        self._headers = self._head.headers
        self._url = b""
        self._bytes = 0
        self._repeats = 0
        self._head_bytes = 0
        self._in_body = False
        self._refusal: Refusal | None = None
        """What a callback raised: httptools wraps it."""
        self._quiet = True
        """No piece of a body came out of what was fed last."""
        self._upgrading = False
        self._replaying = False
        """A head of our own is being fed, so that a new parser stands before the body."""
        self.in_head = False

    def feed(self, data: bytes | memoryview) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as stopped:
            self._stopped_for_upgrade(bytes(memoryview(data)[stopped.args[0] :]))
            return
        except httptools.HttpParserCallbackError:
            if self._refusal is None:
                raise
            self._sink.refused(self._refusal)
            return
        except httptools.HttpParserError as error:
            self._sink.refused(Refusal(400, f"Malformed HTTP: {error}."))
            return
        if self.in_head or self._in_body:
            self._bound(len(data))

    def _bound(self, fed: int) -> None:
        """What llhttp keeps or skips without a callback: a header's value, a trailer, padding."""
        if self.in_head and len(self._url) > self._limits.url_bytes_max:
            self._sink.refused(_url_too_long(self._limits))
            return
        self._bytes = self._bytes + fed if self._quiet else 0
        self._quiet = True
        if self._bytes > self._limits.head_bytes_max:
            self._sink.refused(_head_too_large(self._limits))

    # ---- httptools calls these

    def on_message_begin(self) -> None:
        if self._replaying:
            return
        self._head = Head()
        self._headers = self._head.headers
        self._url = b""
        self._bytes = 0
        self._repeats = 0
        self._head_bytes = 0
        self.in_head = True

    def on_url(self, part: bytes) -> None:
        if not self._replaying:
            self._url = self._url + part if self._url else part

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.in_head:
            return  # a trailer, or a replay
        self._head_bytes += len(name) + len(value) + 4
        key = _names.get(name)
        if key is None:
            key = self._unusual(name)
        headers = self._headers
        text = value.rstrip(b" \t").decode("latin-1")
        if key in headers:
            self._repeats += 1
            self._head.repeated.add(key)
            text = f"{headers[key]}, {text}"
        headers[key] = text

    def _unusual(self, name: bytes) -> str:
        """A name that has not been met, or whose case matters."""
        key = name.decode("latin-1").lower()
        if _case_matters(name, key):
            self._head.spelling[key] = name.decode("latin-1")
        elif len(_names) < _names_max:
            _names[name] = key
        return key

    def on_headers_complete(self) -> None:
        if self._replaying:
            self._replaying = False
            return
        try:
            self._complete_head()
        except Refusal as refusal:
            self._refusal = refusal
            raise
        self.in_head = False
        self._in_body = self._head.has_body
        self._bytes = 0
        self._upgrading = self._sink.request_begun(self._head) and self._head.upgrade

    def _complete_head(self) -> None:
        limits, head = self._limits, self._head
        if len(self._url) > limits.url_bytes_max:
            raise _url_too_long(limits)
        if self._head_bytes > limits.head_bytes_max:
            raise _head_too_large(limits)
        if len(head.headers) + self._repeats > limits.headers_max:
            raise Refusal(431, f"More than {limits.headers_max} headers.")
        version = self._parser.get_http_version()
        if version != "1.1":
            if version != "1.0":
                raise Refusal(505, "Only HTTP/1.1 and HTTP/1.0 are served.")
            head.version_1_0 = True
        head.method = self._parser.get_method().decode("ascii")
        if head.method == "CONNECT":
            raise Refusal(405, "CONNECT is not served.")
        self._read_target()
        self._read_framing()
        head.keep_alive = not head.version_1_0 and self._parser.should_keep_alive()
        head.upgrade = self._parser.should_upgrade()

    def on_body(self, piece: bytes) -> None:
        self._quiet = False
        self._sink.body_piece(piece)

    def on_message_complete(self) -> None:
        if self._head.upgrade and self._in_body:
            return  # httptools skips the bodies of upgrades: `_stopped_for_upgrade` goes on
        self._in_body = False
        self._sink.request_ended()

    # ---- what the head says

    def _read_target(self) -> None:
        head = self._head
        headers = head.headers
        target = self._url.decode("ascii")  # llhttp lets nothing else through
        if not target.startswith("/"):
            scheme, colon, rest = target.partition("://")
            if not colon or scheme.lower() not in ("http", "https"):
                raise Refusal(400, "The request target is neither a path nor an http URL.")
            end = min(
                position
                for position in (rest.find("/"), rest.find("?"), len(rest))
                if position >= 0
            )
            headers["host"] = rest[:end]
            target = rest[end:] if rest[end:].startswith("/") else "/" + rest[end:]
        if "#" in target:
            raise Refusal(400, "The request target has a fragment.")
        if "host" not in headers and not head.version_1_0:
            raise Refusal(400, "The Host header is missing.")
        if "host" in head.repeated:
            raise Refusal(400, "There is more than one Host header.")
        head.path, _, head.query = target.partition("?")

    def _read_framing(self) -> None:
        head = self._head
        headers = head.headers
        coding = headers.get("transfer-encoding")
        if coding is not None:
            if coding.lower() != "chunked" or head.version_1_0:
                raise Refusal(501, "The only transfer coding served is chunked.")
            head.has_body = True
        else:
            length = headers.get("content-length")
            if length is not None and length != "0":
                if not (length.isdecimal() and length.isascii()):
                    raise Refusal(400, "The Content-Length header is not a number.")
                head.body_length = int(length)
                head.has_body = head.body_length > 0
        expect = headers.get("expect")
        if expect is not None and not head.version_1_0:
            if expect.lower() != "100-continue":
                raise Refusal(417, "The only expectation served is 100-continue.")
            head.expects_continue = head.has_body

    def _stopped_for_upgrade(self, rest: bytes) -> None:
        """The parser stops behind a head that asks for an upgrade.

        JDK clients offer h2c on ordinary requests.  Whoever is not upgraded goes on in HTTP/1.1:
        a new parser stands before the body, behind a head of our own.
        """
        if self._upgrading:
            self._sink.upgraded(rest)
            return
        head = self._head
        head.upgrade = False
        self._parser = httptools.HttpRequestParser(self)
        if self._in_body:
            self._replaying = True
            length = head.body_length
            framing = (
                "transfer-encoding: chunked" if length is None else f"content-length: {length}"
            )
            self._parser.feed_data(f"POST / HTTP/1.1\r\nhost: x\r\n{framing}\r\n\r\n".encode())
        if rest:
            self.feed(rest)


def _case_matters(name: bytes, key: str) -> bool:
    """Names of metadata and of message properties are kept as they are written; HTTP's own and
    the services' have no case."""
    if key in _caseless or (key.startswith("x-ms-") and not key.startswith("x-ms-meta-")):
        return False
    return name != key.encode("latin-1")


def _url_too_long(limits: HttpLimits) -> Refusal:
    return Refusal(414, f"The request target is longer than {limits.url_bytes_max} bytes.")


def _head_too_large(limits: HttpLimits) -> Refusal:
    return Refusal(431, f"The headers are longer than {limits.head_bytes_max} bytes.")
