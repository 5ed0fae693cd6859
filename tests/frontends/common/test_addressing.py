"""Which account and which path a URL names."""

import pytest

from etagere.base.errors import Refused
from etagere.frontends.common.addressing import Address, decode, resolve


@pytest.mark.parametrize(
    ("host", "path", "expected"),
    [
        ("127.0.0.1:10000", "/acct/c/b", Address("acct", False, "c/b", False)),
        ("localhost", "/acct", Address("acct", False, "", False)),
        ("[::1]:10000", "/acct/c", Address("acct", False, "c", False)),
        ("127.0.0.1:10000", "/acct-secondary/c", Address("acct", True, "c", False)),
        ("acct.blob.localhost:10000", "/c/b", Address("acct", False, "c/b", True)),
        ("ACCT.blob.core.windows.net", "/c", Address("acct", False, "c", True)),
        ("acct-secondary.queue.localhost", "/q", Address("acct", True, "q", True)),
        ("acct.BLOB.LocalHost:10000", "/c", Address("acct", False, "c", True)),
        ("acct.Z13.Web.localhost", "/x", Address("acct", False, "x", True, website=True)),
        ("acct-ipv6.blob.localhost", "/c", Address("acct", False, "c", True)),
        ("acct-secondary-dualstack.blob.x", "/c", Address("acct", True, "c", True)),
        ("acct.z13.web.localhost", "/x", Address("acct", False, "x", True, website=True)),
        ("host.docker.internal:10000", "/acct/c", Address("acct", False, "c", False)),
        ("127.0.0.1", "/a%63ct/%63", Address("acct", False, "%63", False)),
    ],
)
def test_addresses(host: str, path: str, expected: Address) -> None:
    assert resolve(host, path) == expected


@pytest.mark.parametrize("path", ["/", "//x"])
def test_a_path_without_an_account(path: str) -> None:
    with pytest.raises(Refused, match="InvalidUri"):
        resolve("127.0.0.1:1", path)


def test_segments_are_decoded_once() -> None:
    assert decode("a%2Fb%2520c+d") == "a/b%20c+d"
    with pytest.raises(Refused, match="InvalidUri"):
        decode("%ff")
