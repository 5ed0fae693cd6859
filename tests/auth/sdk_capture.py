"""A transport that keeps the requests of an SDK's client instead of sending them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import requests
from auth_samples import account, query_pairs

from etagere.auth.request import SignedRequest
from etagere.base.clock import Timestamp
from etagere.kernel.dates import parse_http_date


class Kept(Exception):  # noqa: N818 - it is no error that a request was kept
    pass


class KeepingTransport:
    """What azure-core calls in place of `requests`."""

    def __init__(self) -> None:
        self.requests: list[Any] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def open(self) -> None:
        pass

    def close(self) -> None:
        pass

    def sleep(self, _duration: float) -> None:
        pass

    def send(self, request: Any, **_: Any) -> Any:
        self.requests.append(request)
        raise Kept


@contextmanager
def kept() -> Iterator[None]:
    """The one request inside is kept."""
    try:
        yield
    except Kept:
        return
    raise AssertionError("no request was sent")


def as_received(
    sent: Any, *, service: str, name: str = account, secondary: bool = False, secure: bool = False
) -> SignedRequest:
    """The request as it arrives when the `requests` transport sends it."""
    prepared = requests.Request(sent.method, sent.url).prepare()
    path, _, raw_query = prepared.path_url.partition("?")
    headers = {n.lower(): str(v) for n, v in sent.headers.items()}
    return SignedRequest(
        method=sent.method,
        raw_path=path,
        query=query_pairs(raw_query),
        raw_query=raw_query,
        headers=headers,
        account=name,
        service=service,
        version=headers.get("x-ms-version", ""),
        secure=secure,
        client_ip="127.0.0.1",
        secondary=secondary,
    )


def sent_at(request: SignedRequest) -> Timestamp:
    moment = parse_http_date(request.headers["x-ms-date"])
    assert moment is not None
    return moment
