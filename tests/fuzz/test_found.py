"""What the fuzzer found once, as small as it can be shown."""

from random import Random

import pytest

from etagere.frontends.common.paging import encode_marker
from etagere.kv.tuples import Item

from .furniture import furnish
from .target import Target, complaints, signature
from .wanted import Wanted, account


@pytest.fixture
async def target():
    target = Target(Random(1))
    await furnish(target, first=True)
    with complaints() as complained:
        yield target
    assert complained.heard == []
    await target.finish()


def wanted(service: str, method: str, path: str, query: str = "", body: bytes = b"", **headers):
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    sent |= {"host": "127.0.0.1", "x-ms-version": "2025-05-05", "content-length": str(len(body))}
    return Wanted(
        service, method, f"/{account}{path}", f"{query}&{signature}".strip("&"), sent, body
    )


@pytest.mark.parametrize("header", ["x-ms-copy-source", "x-ms-previous-snapshot-url"])
async def test_a_url_that_cannot_be_taken_apart(target: Target, header: str):
    request = wanted("blob", "PUT", "/shelf/new", **{header: "http://[::1"})
    if "previous" in header:
        request.path, request.method = request.path.replace("new", "page"), "GET"
        request.query = f"comp=pagelist&{request.query}"
    answer = await target.ask(request)
    assert answer is not None
    assert (answer.status, answer.headers["x-ms-error-code"]) == (400, "InvalidHeaderValue")


@pytest.mark.parametrize("encoding", ["x", "hex", "utf-7", "idna", "undefined", "cp1252"])
async def test_a_document_in_an_encoding_of_pythons_own(target: Target, encoding: str):
    body = f"<?xml version='1.0' encoding='{encoding}'?><Tags/>".encode()
    answer = await target.ask(wanted("blob", "PUT", "/shelf/block", "comp=tags", body))
    assert answer is not None
    assert (answer.status, answer.headers["x-ms-error-code"]) == (400, "InvalidXmlDocument")


@pytest.mark.parametrize("version", ["9223372036854775808", "-1", "0x5", "1_0", "9" * 5000])
async def test_a_version_of_a_deleted_container_that_was_never_told(target: Target, version: str):
    request = wanted("blob", "PUT", "/other", "restype=container&comp=undelete")
    request.headers |= {
        "x-ms-deleted-container-name": "shelf",
        "x-ms-deleted-container-version": version,
    }
    answer = await target.ask(request)
    assert answer is not None
    assert (answer.status, answer.headers["x-ms-error-code"]) == (404, "ContainerNotFound")


@pytest.mark.parametrize("position", [(), (5,), (b"a",), ("a", -1), ("a", 2**62), (None,)])
@pytest.mark.parametrize(
    ("service", "path", "query"),
    [
        ("blob", "/", "comp=list"),
        ("blob", "/shelf", "restype=container&comp=list"),
        ("blob", "/shelf", "restype=container&comp=blobs&where=a%3D'b'"),
        ("blob", "/shelf/page", "comp=pagelist&maxresults=1"),
        ("queue", "/", "comp=list"),
    ],
)
async def test_markers_of_another_kind(
    target: Target, service: str, path: str, query: str, position: tuple[Item, ...]
):
    request = wanted(service, "GET", path, f"{query}&marker={encode_marker(*position)}")
    answer = await target.ask(request)
    assert answer is not None
    assert answer.status in (200, 400)


async def test_numbers_with_more_digits_than_python_reads(target: Target):
    digits = "9" * 5000
    listing = wanted("blob", "GET", "/shelf", f"restype=container&comp=list&marker=2!{digits}!")
    answer = await target.ask(listing)
    assert answer is not None
    assert answer.status == 200
    days = f"<Enabled>true</Enabled><Days>{digits}</Days>"
    rule = (
        "<AllowedOrigins>*</AllowedOrigins><AllowedMethods>GET</AllowedMethods>"
        f"<MaxAgeInSeconds>{digits}</MaxAgeInSeconds>"
    )
    for inner in (
        f"<DeleteRetentionPolicy>{days}</DeleteRetentionPolicy>",
        f"<Cors><CorsRule>{rule}</CorsRule></Cors>",
    ):
        body = f"<StorageServiceProperties>{inner}</StorageServiceProperties>".encode()
        request = wanted("blob", "PUT", "/", "restype=service&comp=properties", body)
        answer = await target.ask(request)
        assert answer is not None
        assert answer.status == 400
    query = wanted("table", "GET", "/Shelf()", f"$filter=a%20eq%20{digits}")
    answer = await target.ask(query)
    assert answer is not None
    assert answer.status == 400
