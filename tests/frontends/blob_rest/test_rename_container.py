"""Rename Container: everything in it goes by the new name at once, and nothing is moved."""

import http.client
import threading
from xml.etree import ElementTree as ET

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobBlock

from etagere.services.blob.forget import forget
from etagere.services.common.accounts import development_account

from .serving import RawClient, Reply, Server

A = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
B = "bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb"
large = bytes(range(256)) * 1024
"""More than a row takes: it lies in an extent."""


def rename(raw: RawClient, old: str, new: str, **headers: str) -> Reply:
    sent = {"x-ms-source-container-name": old}
    sent |= {f"x-ms-{name.replace('_', '-')}": value for name, value in headers.items()}
    return raw("PUT", f"/{new}", headers=sent, restype="container", comp="rename")


def names(reply: Reply) -> list[str]:
    assert reply.status == 200, reply.text
    return [item.findtext("Name") for item in ET.fromstring(reply.body).find("Blobs")]


@pytest.fixture
def old(raw: RawClient) -> RawClient:
    headers = {"x-ms-meta-a": "1", "x-ms-blob-public-access": "container"}
    assert raw("PUT", "/old", headers=headers, restype="container").status == 201
    return raw


def test_everything_goes_by_the_new_name(server: Server, old: RawClient) -> None:
    raw = old
    raw.put_blob("/old/small", b"one", x_ms_tags="k=v")
    raw.put_blob("/old/large", large)
    taken = raw("PUT", "/old/small", comp="snapshot").headers["x-ms-snapshot"]
    raw("PUT", "/old/staged", b"x", comp="block", blockid="AAAA")
    page = {"x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": "1024"}
    raw("PUT", "/old/disk", b"", page)
    before = raw("HEAD", "/old", restype="container")
    etag = raw("HEAD", "/old/small").etag

    renamed = rename(raw, "old", "new")
    assert renamed.status == 200, renamed.text
    assert raw("HEAD", "/old", restype="container").code == "ContainerNotFound"
    assert raw("GET", "/old/small").code == "ContainerNotFound"
    found = raw("HEAD", "/new", restype="container")
    assert found.headers["x-ms-meta-a"] == "1"
    assert found.headers["x-ms-blob-public-access"] == "container"
    assert found.etag != before.etag
    assert raw("GET", "/new/small").body == b"one"
    assert raw("GET", "/new/large").body == large
    assert raw("GET", "/new/small", snapshot=taken).body == b"one"
    assert raw("HEAD", "/new/small").etag == etag
    listing = raw("GET", "/new", restype="container", comp="list", include="uncommittedblobs")
    assert names(listing) == ["disk", "large", "small", "staged"]
    tagged = raw("GET", "/", comp="blobs", where="\"k\"='v'")
    assert "<ContainerName>new</ContainerName>" in tagged.text
    listed = [each.name for each in server.sdk().list_containers()]
    assert listed == ["new"]


def test_the_renamed_container_is_written_to(server: Server, old: RawClient) -> None:
    raw = old
    raw.put_blob("/old/small", b"one")
    rename(raw, "old", "new")
    assert raw.put_blob("/new/small", b"two").status == 201
    assert raw.put_blob("/new/large", large).status == 201
    with server.sdk() as client:
        blobs = client.get_container_client("new")
        block = blobs.get_blob_client("blocks")
        block.stage_block("a", b"x" * 10)
        block.commit_block_list([BlobBlock("a")])
        log = blobs.get_blob_client("log")
        log.create_append_blob()
        log.append_block(b"line")
        disk = blobs.get_blob_client("disk")
        disk.create_page_blob(1024)
        disk.upload_page(b"p" * 512, 0, 512)
        assert disk.download_blob().readall() == b"p" * 512 + bytes(512)
        assert list(disk.list_page_ranges())
        copy = blobs.get_blob_client("copy")
        copy.start_copy_from_url(blobs.get_blob_client("large").url)
        assert copy.download_blob().readall() == large
        other = client.create_container("other").get_blob_client("copy")
        other.start_copy_from_url(disk.url)
        assert other.download_blob().readall() == b"p" * 512 + bytes(512)
        blobs.get_blob_client("small").set_blob_metadata({"a": "b"})
        blobs.get_blob_client("small").set_blob_tags({"a": "b"})
        blobs.delete_blob("copy")
        assert sorted(blob.name for blob in blobs.list_blobs()) == [
            "blocks", "disk", "large", "log", "small",
        ]  # fmt: skip
    assert server.problems() == []


def test_the_old_name_may_be_taken_anew(server: Server, old: RawClient) -> None:
    raw = old
    raw.put_blob("/old/a", large)
    rename(raw, "old", "new")
    assert raw("PUT", "/old", restype="container").status == 201
    assert raw("GET", "/old/a").code == "BlobNotFound"
    raw.put_blob("/old/a", b"other")
    assert raw("GET", "/new/a").body == large
    copied = raw("PUT", "/old/b", headers={"x-ms-copy-source": f"{server.url}/new/a?{raw.sas}"})
    assert copied.status == 202, copied.text
    assert raw("DELETE", "/new", restype="container").status == 202
    server.sweep()
    server.clock.advance(3600)
    server.sweep()
    assert raw("GET", "/old/a").body == b"other"
    assert raw("GET", "/old/b").body == large
    assert raw("DELETE", "/old", restype="container").status == 202
    server.sweep()
    server.clock.advance(3600)
    server.sweep()
    assert server.run(server.extents.usage()).extents == 0


def test_there_and_back_again(server: Server, old: RawClient) -> None:
    raw = old
    raw.put_blob("/old/a", b"kept")
    for source, target in (("old", "new"), ("new", "third"), ("third", "old"), ("old", "new")):
        assert rename(raw, source, target).status == 200
        assert raw("GET", f"/{target}/a").body == b"kept"
        assert raw("GET", f"/{source}/a").code == "ContainerNotFound"
        assert server.problems() == []


def test_what_is_refused(server: Server, old: RawClient) -> None:
    raw = old
    raw("PUT", "/taken", restype="container")
    raw.put_blob("/old/a", b"kept")
    for source, target, status, code in (
        ("none", "new", 404, "ContainerNotFound"),
        ("Impossible", "new", 404, "ContainerNotFound"),
        ("old", "taken", 409, "ContainerAlreadyExists"),
        ("old", "old", 409, "ContainerAlreadyExists"),
        ("old", "Impossible", 400, "InvalidResourceName"),
        ("old", "ab", 400, "OutOfRangeInput"),
        ("", "new", 400, "MissingRequiredHeader"),
    ):
        reply = rename(raw, source, target)
        assert (reply.status, reply.code) == (status, code), (source, target)
    assert raw("GET", "/old/a").body == b"kept"
    assert raw("HEAD", "/taken", restype="container").status == 200


def test_the_lease_of_the_source(old: RawClient) -> None:
    raw = old
    unleased = rename(raw, "old", "new", source_lease_id=A)
    assert (unleased.status, unleased.code) == (412, "LeaseNotPresentWithContainerOperation")
    headers = {
        "x-ms-lease-action": "acquire",
        "x-ms-lease-duration": "-1",
        "x-ms-proposed-lease-id": A,
    }
    assert raw("PUT", "/old", headers=headers, restype="container", comp="lease").status == 201
    for sent, code in (
        ({}, "LeaseIdMissing"),
        ({"source_lease_id": B}, "LeaseIdMismatchWithContainerOperation"),
    ):
        refused = rename(raw, "old", "new", **sent)
        assert (refused.status, refused.code) == (412, code)
    bad = rename(raw, "old", "new", source_lease_id="x")
    assert (bad.status, bad.code) == (400, "InvalidHeaderValue")
    assert "<HeaderName>x-ms-source-lease-id</HeaderName>" in bad.text
    assert rename(raw, "old", "new", source_lease_id=A).status == 200
    assert raw("HEAD", "/new", restype="container").headers["x-ms-lease-state"] == "leased"
    assert raw("DELETE", "/new", restype="container").code == "LeaseIdMissing"


def test_versions_and_soft_delete_go_along() -> None:
    import dataclasses

    account = dataclasses.replace(
        development_account(), versioning=True, container_soft_delete_days=3
    )
    server = Server(account)
    raw = RawClient(server.port)
    raw("PUT", "/old", restype="container")
    first = raw.put_blob("/old/a", b"1").headers["x-ms-version-id"]
    rename(raw, "old", "new")
    raw.put_blob("/new/a", b"2")
    assert raw("GET", "/new/a", versionid=first).body == b"1"
    assert raw("DELETE", "/new", restype="container").status == 202
    assert server.problems() == []
    text = raw("GET", "/", comp="list", include="deleted").text
    version = text.partition("<Version>")[2].partition("</Version>")[0]
    restored = raw(
        "PUT",
        "/new",
        headers={
            "x-ms-deleted-container-name": "new",
            "x-ms-deleted-container-version": version,
        },
        restype="container",
        comp="undelete",
    )
    assert restored.status == 201, restored.text
    assert raw("GET", "/new/a").body == b"2"
    assert raw("GET", "/new/a", versionid=first).body == b"1"
    raw("DELETE", "/new", restype="container")
    server.clock.advance(4 * 86_400)
    server.sweep()
    server.clock.advance(3600)
    server.sweep()
    assert raw("PUT", "/new", restype="container").status == 201
    raw.close()
    server.stop()


def test_staged_blocks_and_deleted_blobs_are_swept_under_the_new_name(
    server: Server, old: RawClient
) -> None:
    raw = old
    raw("PUT", "/old/staged", b"x", comp="block", blockid="AAAA")
    raw.put_blob("/old/large", large)
    rename(raw, "old", "new")
    raw("DELETE", "/new/large")
    server.clock.advance(8 * 86_400)
    server.sweep()
    listing = raw("GET", "/new", restype="container", comp="list", include="uncommittedblobs")
    assert names(listing) == []
    assert server.run(server.extents.usage()).extents == 0


def test_one_of_many_renames_succeeds(server: Server, old: RawClient) -> None:
    """And writes that come at the same time are in the new container or refused, never lost."""
    old.put_blob("/old/first", b"x")
    answers: list[int] = []
    written: list[str] = []
    start = threading.Barrier(8)

    def run(number: int) -> None:
        client = RawClient(server.port)
        start.wait(10)
        if number % 2:
            answers.append(rename(client, "old", f"new-{number}").status)
        else:
            for count in range(10):
                name = f"b-{number}-{count}"
                if client.put_blob(f"/old/{name}").status == 201:
                    written.append(name)
        client.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(answers) == [200, 404, 404, 404]
    [name] = [each.name for each in server.sdk().list_containers()]
    listing = old("GET", f"/{name}", restype="container", comp="list")
    assert names(listing) == sorted(["first", *written])


def test_the_python_sdk_renames(server: Server, old: RawClient) -> None:
    old.put_blob("/old/a", b"data")
    with server.sdk() as client:
        renamed = client.get_container_client("old")._rename_container("new")
        assert renamed.download_blob("a").readall() == b"data"
        lease = renamed.acquire_lease()
        with pytest.raises(HttpResponseError, match="LeaseIdMissing"):
            client._rename_container("new", "third")
        third = client._rename_container("new", "third", lease=lease)
        assert third.get_container_properties().name == "third"


def test_a_renamed_container_is_forgotten_with_its_account(server: Server, old: RawClient) -> None:
    old.put_blob("/old/large", large)
    rename(old, "old", "new")
    old("PUT", "/old", restype="container")
    old.put_blob("/old/large", large)
    server.run(forget(server.engine, server.account.name))
    assert "<Container>" not in old("GET", "/", comp="list").text
    server.sweep()
    server.clock.advance(3600)
    server.sweep()
    assert server.run(server.extents.usage()).extents == 0


def test_a_download_goes_on_while_its_container_is_renamed(server: Server, old: RawClient) -> None:
    """A page blob's is pinned in the store, and let go of again at its end."""
    size = 24 * 1024 * 1024
    headers = {"x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": str(size)}
    old("PUT", "/old/disk", b"", headers)
    expected = bytearray(size)
    with server.sdk() as client:
        disk = client.get_blob_client("old", "disk")
        for at in range(0, size, 1024 * 1024):
            disk.upload_page(b"p" * 512, at, 512)
            expected[at : at + 512] = b"p" * 512
        download = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        download.request(
            "GET",
            f"/{server.account.name}/old/disk?{old.sas}",
            headers={"x-ms-version": "2025-05-05"},
        )
        response = download.getresponse()
        first = response.read(1000)
        assert rename(old, "old", "new").status == 200
        client.get_blob_client("new", "disk").upload_page(b"q" * 512, size - 512, 512)
        assert first + response.read() == bytes(expected)
        download.close()
