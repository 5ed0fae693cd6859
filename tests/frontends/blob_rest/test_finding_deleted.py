"""Find Blobs by Tags with `include=deleted` and `include=versions`."""

import dataclasses
from xml.etree import ElementTree as ET

import pytest

from etagere.services.common.accounts import development_account

from .serving import RawClient, Server
from .test_history import retain

Found = tuple[str, ...]


def found(raw: RawClient, include: str, where: str = "k = 'v'", size: int = 100) -> list[Found]:
    """(name, which of these it says...) of all pages."""
    pages: list[Found] = []
    at: dict[str, str] = {}
    while True:
        query = {"where": where, "maxresults": size, **({"include": include} if include else {})}
        reply = raw("GET", "/", comp="blobs", **query, **at)
        assert reply.status == 200, reply.text
        root = ET.fromstring(reply.body)
        blobs = root.findall("Blobs/Blob")
        assert len(blobs) <= size
        pages += [
            (
                blob.findtext("Name"),
                *(tag for tag in ("Deleted", "VersionId") if blob.find(tag) is not None),
            )
            for blob in blobs
        ]
        at = {"marker": root.findtext("NextMarker") or ""}
        if not at["marker"]:
            return pages


@pytest.mark.parametrize("size", [1, 100])
def test_deleted_blobs_are_found_while_they_are_retained(
    server: Server, raw: RawClient, container: str, size: int
) -> None:
    retain(raw, 3)
    for name in "abc":
        raw.put_blob(f"{container}/{name}", x_ms_tags="k=v&n=1")
    raw.put_blob(f"{container}/d", x_ms_tags="k=other")
    raw.put_blob(f"{container}/c", x_ms_tags="k=v&n=2")  # what was there is a snapshot now
    for name in "bd":
        assert raw("DELETE", f"{container}/{name}").status == 202
    assert found(raw, "", size=size) == [("a",), ("c",)]
    for where in ("k = 'v'", "k = 'v' AND n > '0'", "k >= 'v' AND k <= 'v'"):
        assert found(raw, "deleted", where, size) == [("a",), ("b", "Deleted"), ("c",)]
    assert found(raw, "versions", size=size) == [("a",), ("c",)]
    assert raw("PUT", f"{container}/b", comp="undelete").status == 200
    assert found(raw, "deleted", size=size) == [("a",), ("b",), ("c",)]
    assert raw("DELETE", f"{container}/b").status == 202
    server.clock.advance(3 * 86_400 + 1)
    assert found(raw, "deleted", size=size) == [("a",), ("c",)]


@pytest.mark.parametrize("size", [1, 100])
def test_deleted_versions_are_found_where_both_are_asked_for(size: int) -> None:
    server = Server(dataclasses.replace(development_account(), versioning=True))
    raw = RawClient(server.port)
    assert raw("PUT", "/things", restype="container").status == 201
    retain(raw, 3)
    first = raw.put_blob("/things/a", x_ms_tags="k=v").headers["x-ms-version-id"]
    raw.put_blob("/things/a", x_ms_tags="k=v")
    assert raw("DELETE", "/things/a", versionid=first).status == 202
    assert found(raw, "versions", size=size) == [("a", "VersionId")]
    assert found(raw, "deleted", size=size) == [("a",)]
    both = [("a", "Deleted", "VersionId"), ("a", "VersionId")]
    assert found(raw, "versions,deleted", size=size) == both
    raw.close()
    server.stop()
