"""List Blobs and List Containers: order, prefixes, delimiters, pages, includes, snapshots."""

import dataclasses
import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etagere.services.common.accounts import development_account

from .serving import RawClient, Reply, Server


def listed(reply: Reply) -> list[str]:
    """Names in order, prefixes with a > in front."""
    assert reply.status == 200, reply.text
    root = ET.fromstring(reply.body)
    names = []
    for item in root.find("Blobs"):
        name = item.findtext("Name")
        names.append(("> " if item.tag == "BlobPrefix" else "") + name)
    return names


def marker(reply: Reply) -> str:
    return ET.fromstring(reply.body).findtext("NextMarker") or ""


def pages(raw: RawClient, container: str, size: int, **query: object) -> list[str]:
    found: list[str] = []
    at = ""
    while True:
        reply = raw("GET", container, restype="container", comp="list", maxresults=size,
                    **({"marker": at} if at else {}), **query)  # fmt: skip
        names = listed(reply)
        assert len(names) <= size
        found += names
        at = marker(reply)
        if not at:
            return found


def expected(names: list[str], prefix: str, delimiter: str) -> list[str]:
    found: list[str] = []
    for name in sorted(names):
        if not name.startswith(prefix):
            continue
        at = name.find(delimiter, len(prefix)) if delimiter else -1
        entry = name if at < 0 else "> " + name[: at + len(delimiter)]
        if entry not in found:
            found.append(entry)
    return found


pieces = st.sampled_from(["a", "b", "ab", "/", "//", "é", "日", "-", "~", "\U0001f600"])
blob_names = st.lists(pieces, min_size=1, max_size=5).map("".join)


@given(
    st.lists(blob_names, max_size=25, unique=True),
    st.one_of(st.just(""), blob_names),
    st.sampled_from(["", "/", "a", "//"]),
    st.integers(1, 7),
)
@settings(max_examples=40)
def test_every_listing_is_the_naive_one(
    names: list[str], prefix: str, delimiter: str, size: int
) -> None:
    server = _shared()
    raw = RawClient(server.port)
    _shared.count += 1
    container = f"/list-{_shared.count}"
    raw("PUT", container, restype="container")
    from urllib.parse import quote

    for name in names:
        assert raw.put_blob(f"{container}/{quote(name, safe='')}", b"").status == 201
    query = {key: value for key, value in (("prefix", prefix), ("delimiter", delimiter)) if value}
    assert pages(raw, container, size, **query) == expected(names, prefix, delimiter)
    raw.close()


class _Shared:
    """One server for all examples."""

    def __init__(self) -> None:
        self.server: Server | None = None
        self.count = 0

    def __call__(self) -> Server:
        if self.server is None:
            self.server = Server()
        return self.server


_shared = _Shared()


@pytest.fixture(scope="module", autouse=True)
def _stopped():
    yield
    if _shared.server is not None:
        _shared.server.stop()


def test_a_page_is_a_position_not_a_memory(raw: RawClient, container: str) -> None:
    for name in "abcdef":
        raw.put_blob(f"{container}/{name}")
    first = raw("GET", container, restype="container", comp="list", maxresults=3)
    assert listed(first) == ["a", "b", "c"]
    raw("DELETE", f"{container}/d")
    raw.put_blob(f"{container}/aa")
    raw.put_blob(f"{container}/dd")
    second = raw("GET", container, restype="container", comp="list", marker=marker(first))
    assert listed(second) == ["dd", "e", "f"]


def test_uncommitted_blobs_are_listed_when_asked_for(raw: RawClient, container: str) -> None:
    raw.put_blob(f"{container}/b")
    for name in "abc":
        raw("PUT", f"{container}/{name}", b"x", comp="block", blockid="AAAA")
    assert listed(raw("GET", container, restype="container", comp="list")) == ["b"]
    query = {"restype": "container", "comp": "list", "include": "uncommittedblobs"}
    assert listed(raw("GET", container, **query)) == ["a", "b", "c"]
    assert pages(raw, container, 1, include="uncommittedblobs") == ["a", "b", "c"]


def test_snapshots_come_before_their_blob_oldest_first(raw: RawClient, container: str) -> None:
    raw.put_blob(f"{container}/a", b"1")
    taken = [raw("PUT", f"{container}/a", comp="snapshot").headers["x-ms-snapshot"]
             for _ in range(3)]  # fmt: skip
    raw.put_blob(f"{container}/b")
    reply = raw("GET", container, restype="container", comp="list", include="snapshots")
    assert re.findall("<Snapshot>(.*?)</Snapshot>", reply.text) == taken
    assert listed(reply) == ["a", "a", "a", "a", "b"]
    assert pages(raw, container, 2, include="snapshots") == ["a", "a", "a", "a", "b"]
    refused = raw("GET", container, restype="container", comp="list", include="snapshots",
                  delimiter="/")  # fmt: skip
    assert (refused.status, refused.code) == (400, "InvalidQueryParameterValue")


def test_metadata_and_tags_on_request(raw: RawClient, container: str) -> None:
    raw.put_blob(f"{container}/a", b"1", x_ms_meta_Colour="red & blue", x_ms_tags="k=v%20w")
    plain = raw("GET", container, restype="container", comp="list").text
    assert "Metadata" not in plain
    assert "<Tags>" not in plain
    assert "<TagCount>1</TagCount>" in plain
    full = raw("GET", container, restype="container", comp="list", include="metadata,tags").text
    assert "<Colour>red &amp; blue</Colour>" in full
    assert "<Key>k</Key><Value>v w</Value>" in full


@pytest.mark.parametrize("version", ["2009-09-19", "2020-12-06", "2021-02-12"])
@pytest.mark.parametrize(
    ("include", "entry"), [("metadata", "Blob"), ("uncommittedblobs", "Blob"), ("", "BlobPrefix")]
)
def test_names_that_xml_cannot_carry(
    raw: RawClient, container: str, version: str, include: str, entry: str
) -> None:
    """They are marked since 2021-02-12; before that, the other names could not be read either."""
    if include == "uncommittedblobs":
        raw("PUT", f"{container}/a%01b", b"x", comp="block", blockid="AAAA")
    else:
        raw.put_blob(f"{container}/a%01b")
    query = {"include": include} if include else {"delimiter": "b"}
    headers = {"x-ms-version": version}
    reply = raw("GET", container, None, headers, restype="container", comp="list", **query)
    name = ET.fromstring(reply.body).find(f"Blobs/{entry}/Name")
    assert (name.text, name.get("Encoded")) == ("a%01b", "true")


def test_what_was_asked_is_repeated_in_xml_that_can_be_read(raw: RawClient, container: str) -> None:
    """Characters that XML cannot carry are percent-encoded in a listing's own parameters too."""
    raw.put_blob(f"{container}/a%01b%01c", x_ms_tags="k=v")
    query = {"prefix": "a\x01", "delimiter": "\x01", "marker": "a\x01"}
    for path, more in (
        (container, {"restype": "container", "comp": "list"}),
        ("/", {"comp": "list"}),
    ):
        reply = raw("GET", path, **{**query, **more})
        root = ET.fromstring(reply.body)
        assert root.findtext("Prefix") == "a%01"
        assert root.findtext("Marker") == "a%01"
        assert root.find("Prefix").get("Encoded") == "true"
    listing = raw("GET", container, restype="container", comp="list", **query)
    assert ET.fromstring(listing.body).findtext("Blobs/BlobPrefix/Name") == "a%01b%01"
    found = ET.fromstring(raw("GET", "/", comp="blobs", where="k='v'").body)
    assert found.findtext("Blobs/Blob/Name") == "a%01b%01c"


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"maxresults": "0"}, "OutOfRangeQueryParameterValue"),
        ({"maxresults": "-1"}, "OutOfRangeQueryParameterValue"),
        ({"maxresults": "x"}, "InvalidQueryParameterValue"),
        ({"include": "nonsense"}, "InvalidQueryParameterValue"),
        ({"showonly": "nonsense"}, "InvalidQueryParameterValue"),
        ({"timeout": "x"}, "InvalidQueryParameterValue"),
    ],
)
def test_bad_listings(raw: RawClient, container: str, query: dict[str, str], code: str) -> None:
    reply = raw("GET", container, restype="container", comp="list", **query)
    assert (reply.status, reply.code) == (400, code)


def test_containers(server: Server, raw: RawClient) -> None:
    names = ["aaa", "aab", "abc", "bbb"]
    for name in names:
        raw("PUT", f"/{name}", headers={"x-ms-meta-n": name}, restype="container")
    with server.sdk() as client:
        assert [c.name for c in client.list_containers()] == names
        assert [c.name for c in client.list_containers(name_starts_with="aa")] == names[:2]
        paged = client.list_containers(results_per_page=3, include_metadata=True).by_page()
        assert [[(c.name, c.metadata["n"]) for c in page] for page in paged] == [
            [(name, name) for name in names[:3]],
            [("bbb", "bbb")],
        ]


def test_listing_a_container_that_is_not_there(raw: RawClient) -> None:
    reply = raw("GET", "/none", restype="container", comp="list")
    assert (reply.status, reply.code) == (404, "ContainerNotFound")


@pytest.mark.parametrize("version", ["2023-11-03", "2026-02-06"])
def test_starting_from_a_name(server: Server, container: str, version: str) -> None:
    """The older version is what object_store sends (obstore, delta-rs, polars)."""
    client = RawClient(server.port, version=version)
    for name in ("a", "b/1", "b/2", "c"):
        client.put_blob(f"{container}/{name}")
    for query, names in (
        ({"startFrom": "b"}, ["b/1", "b/2", "c"]),
        ({"startFrom": "b/2"}, ["b/2", "c"]),
        ({"startFrom": "b/2", "prefix": "b/"}, ["b/2"]),
        ({"startFrom": "b", "delimiter": "/"}, ["> b/", "c"]),
        ({"startFrom": "d"}, []),
    ):
        assert pages(client, container, 1, **query) == names
    client.close()


def test_system_containers_are_listed_on_request(raw: RawClient) -> None:
    for name in ("$logs", "$root", "$web", "a-b", "$blobchangefeed"):
        assert raw("PUT", f"/{name}", restype="container").status == 201

    def names(**query: object) -> list[str]:
        found: list[str] = []
        at = ""
        while True:
            more = {"marker": at} if at else {}
            reply = raw("GET", "/", comp="list", maxresults=1, **query, **more)
            found += re.findall("<Name>(.*?)</Name>", reply.text)
            at = marker(reply)
            if not at:
                return found

    assert names() == ["$root", "$web", "a-b"]
    assert names(include="system") == ["$blobchangefeed", "$logs", "$root", "$web", "a-b"]


def test_last_accesses_are_tracked_where_the_account_says(raw: RawClient, container: str) -> None:
    raw.put_blob(f"{container}/a")
    assert "x-ms-last-access-time" not in raw("GET", f"{container}/a").headers
    account = dataclasses.replace(development_account(), last_access_tracking=True)
    server = Server(account)
    tracking = RawClient(server.port)
    tracking("PUT", "/things", restype="container")
    written = tracking.put_blob("/things/a").headers["last-modified"]

    def accessed() -> str:
        listed = tracking("GET", "/things", restype="container", comp="list").text
        head = tracking("HEAD", "/things/a").headers
        assert f"<LastAccessTime>{head['x-ms-last-access-time']}</LastAccessTime>" in listed
        return head["x-ms-last-access-time"]

    assert accessed() == written
    server.clock.advance(3600)
    before = tracking("GET", "/things/a")
    assert accessed() == written, "one note a day suffices"
    server.clock.advance(86_400)
    tracking("HEAD", "/things/a")
    assert accessed() == written, "properties are not the content"
    read = tracking("GET", "/things/a")
    assert accessed() == read.headers["date"]
    assert read.etag == before.etag
    assert read.headers["last-modified"] == written
    tracking.close()
    server.stop()


properties_in_order = (
    "Creation-Time Last-Modified Etag Content-Length Content-Type Content-Encoding "
    "Content-Language Content-CRC64 Content-MD5 Cache-Control Content-Disposition "
    "x-ms-blob-sequence-number BlobType AccessTier AccessTierInferred AccessTierChangeTime "
    "ArchiveStatus RehydratePriority LeaseStatus LeaseState LeaseDuration CopyId CopySource "
    "CopyStatus CopyStatusDescription CopyProgress CopyCompletionTime IncrementalCopy "
    "ServerEncrypted CustomerProvidedKeySha256 EncryptionScope Sealed LastAccessTime "
    "ImmutabilityPolicyUntilDate ImmutabilityPolicyMode LegalHold DeletedTime "
    "RemainingRetentionDays TagCount Expiry-Time"
).split()


def test_properties_come_in_the_live_service_s_order(server: Server, raw: RawClient) -> None:
    worm = {"x-ms-immutable-storage-with-versioning-enabled": "true"}
    raw("PUT", "/worm", headers=worm, restype="container")
    protected = {
        "x-ms-immutability-policy-until-date": "Thu, 31 Dec 2099 00:00:00 GMT",
        "x-ms-immutability-policy-mode": "unlocked",
        "x-ms-legal-hold": "true",
    }
    raw.put_blob("/worm/plain", b"x", x_ms_tags="k=v", x_ms_access_tier="Archive")
    rehydrate = {"x-ms-access-tier": "Hot"}
    assert raw("PUT", "/worm/plain", headers=rehydrate, comp="tier").status == 202
    raw.put_blob("/worm/scoped", b"x", x_ms_encryption_scope="myscope")
    source = f"{server.url}/worm/scoped?{raw.sas}"
    copied = {"x-ms-copy-source": source, "x-ms-requires-sync": "true", **protected}
    assert raw("PUT", "/worm/copied", headers=copied).status == 202
    acquire = {"x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1"}
    assert raw("PUT", "/worm/copied", headers=acquire, comp="lease").status == 201
    raw("PUT", "/worm/log", headers={"x-ms-blob-type": "AppendBlob"})
    raw("PUT", "/worm/log", comp="seal")
    disk = {"x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": "512"}
    raw("PUT", "/worm/disk", headers=disk)
    everything = "copy,deleted,immutabilitypolicy,legalhold,metadata,snapshots,tags,versions"
    listed = raw("GET", "/worm", restype="container", comp="list", include=everything)
    shown = set()
    for blob in ET.fromstring(listed.body).find("Blobs"):
        names = [item.tag for item in blob.find("Properties")]
        places = [properties_in_order.index(name) for name in names]
        assert places == sorted(set(places)), names
        shown.update(names)
        assert '"' not in blob.findtext("Properties/Etag")
        order = [item.tag for item in blob]
        known = ["Name", "Deleted", "Snapshot", "VersionId", "IsCurrentVersion"]
        known += ["HasVersionsOnly", "Properties"]
        known += ["Metadata", "Tags", "OrMetadata"]
        assert order == [name for name in known if name in order]
    rare = {
        "CopyStatusDescription",
        "IncrementalCopy",
        "CustomerProvidedKeySha256",
        "LastAccessTime",
        "DeletedTime",
        "RemainingRetentionDays",
        "Expiry-Time",
    }
    assert shown == set(properties_in_order) - rare


def test_a_policy_that_says_nothing_is_an_identifier_alone(server: Server, container: str) -> None:
    """So the live service writes it, and the SDK tells it from a policy of empty text."""
    with server.sdk() as client:
        things = client.get_container_client(container[1:])
        things.set_container_access_policy({"empty": None})
        (found,) = things.get_container_access_policy()["signed_identifiers"]
    assert (found.id, found.access_policy) == ("empty", None)


def test_the_stored_md5_is_whatever_a_client_says(raw: RawClient, container: str) -> None:
    """Set Blob Properties compares it with nothing, and so its length does not matter."""
    raw.put_blob(f"{container}/a")
    headers = {"x-ms-blob-content-md5": "MDAwMA=="}
    assert raw("PUT", f"{container}/a", None, headers, comp="properties").status == 200
    assert raw("HEAD", f"{container}/a").headers["content-md5"] == "MDAwMA=="
