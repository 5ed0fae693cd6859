"""Customers' keys and encryption scopes over HTTP: what is stored is not what was sent."""

import asyncio
import base64
import hashlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from azure.storage.blob import ContainerSasPermissions, generate_container_sas

from etagere.extents.contract import Extent
from etagere.kv.contract import ReadTx, Tx
from etagere.kv.engines.memory import MemoryEngine
from etagere.servers.real import RealClock, SystemEntropy
from etagere.services.blob import keys
from etagere.services.blob.encryption import Vault
from etagere.services.common.accounts import development_key, development_name

from .serving import RawClient, Reply, Server
from .test_copies import elsewhere, large, settled

__all__ = ["elsewhere"]

sizes = [1, 1000, 200_000]
"""In a row, and in an extent."""


@pytest.fixture
def raw(server: Server) -> Iterator[RawClient]:
    client = RawClient(server.port, version="2026-04-06")
    yield client
    client.close()


def encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def key_headers(key: bytes, prefix: str = "x-ms-") -> dict[str, str]:
    return {
        f"{prefix}encryption-key": encode(key),
        f"{prefix}encryption-key-sha256": encode(hashlib.sha256(key).digest()),
        f"{prefix}encryption-algorithm": "AES256",
    }


key = bytes(range(32))
other_key = bytes(32)
with_key = key_headers(key)
with_other_key = key_headers(other_key)
with_scope = {"x-ms-encryption-scope": "secrets"}
with_other_scope = {"x-ms-encryption-scope": "others"}
seals = pytest.mark.parametrize("seal", [with_key, with_scope], ids=["key", "scope"])


def plain(size: int, name: str = "") -> bytes:
    """Bytes that are found wherever they lie: a word again and again."""
    return (f"plain text {name}" * (size // 10 + 1)).encode()[:size]


def reads(seal: dict[str, str]) -> dict[str, str]:
    """What a read has to send: a key, but no scope."""
    return seal if "x-ms-encryption-key" in seal else {}


def put(raw: RawClient, path: str, data: bytes, seal: dict[str, str]) -> Reply:
    return raw("PUT", path, data, {"x-ms-blob-type": "BlockBlob", **seal})


def stored(server: Server, container: str) -> bytes:
    """All that the store and the extents have."""

    async def rows(tx: ReadTx) -> list[tuple[bytes, bytes]]:
        part = keys.container_partition(development_name, container.strip("/"))
        account = keys.account_partition(development_name)
        found: list[tuple[bytes, bytes]] = []
        for each in (part, account):
            found += await tx.scan(each, b"", b"\xff" * 32, limit=100_000)
        return found

    async def extents() -> list[bytes]:
        return [
            piece
            async for kept in server.extents.list()
            async for piece in server.extents.read(Extent(kept.id, kept.stored_bytes))
        ]

    values = server.run(server.engine.read(rows))
    assert values
    return b"".join([key + value for key, value in values] + server.run(extents()))


def check_ranges(raw: RawClient, path: str, data: bytes, seal: dict[str, str]) -> None:
    assert raw("GET", path, headers=reads(seal)).body == data
    size = len(data)
    for first, last in ((0, 0), (1, 15), (15, 33), (size // 3, size - 2), (size - 1, size - 1)):
        if 0 <= first <= last < size:
            wanted = {**reads(seal), "x-ms-range": f"bytes={first}-{last}"}
            part = raw("GET", path, headers=wanted)
            assert (part.status, part.body) == (206, data[first : last + 1])


def check_said(headers: dict[str, str], seal: dict[str, str]) -> None:
    for name in ("x-ms-encryption-scope", "x-ms-encryption-key-sha256"):
        assert headers.get(name) == seal.get(name)


def block_id(number: int) -> str:
    return encode(b"%04d" % number)


def stage(raw: RawClient, path: str, number: int, data: bytes, seal: dict[str, str]) -> Reply:
    return raw("PUT", path, data, seal, comp="block", blockid=block_id(number))


def commit(raw: RawClient, path: str, numbers: list[int], seal: dict[str, str]) -> Reply:
    listed = "".join(f"<Latest>{block_id(number)}</Latest>" for number in numbers)
    return raw("PUT", path, f"<BlockList>{listed}</BlockList>", seal, comp="blocklist")


# ---- what is stored


@seals
@pytest.mark.parametrize("size", sizes)
def test_block_blobs(
    server: Server, raw: RawClient, container: str, seal: dict[str, str], size: int
) -> None:
    data = plain(size)
    made = put(raw, f"{container}/put", data, seal)
    assert made.status == 201
    assert made.headers["x-ms-request-server-encrypted"] == "true"
    check_said(made.headers, seal)
    assert made.headers["content-md5"] == encode(hashlib.md5(data).digest())
    path = f"{container}/blocks"
    for number in range(3):
        staged = stage(raw, path, number, data, seal)
        assert staged.status == 201
        check_said(staged.headers, seal)
        assert staged.headers["x-ms-content-crc64"] == made.headers["x-ms-content-crc64"]
    check_said(commit(raw, path, [0, 1, 2, 0], seal).headers, seal)
    check_ranges(raw, f"{container}/put", data, seal)
    check_ranges(raw, path, data * 4, seal)
    found = raw("HEAD", path, headers=reads(seal))
    check_said(found.headers, seal)
    assert found.headers["x-ms-server-encrypted"] == "true"
    if size > 20:
        assert b"plain text" not in stored(server, container)
        assert put(raw, f"{container}/not", data, {}).status == 201
        assert b"plain text" in stored(server, container)


@seals
@pytest.mark.parametrize("size", sizes)
def test_append_blobs(
    server: Server, raw: RawClient, container: str, seal: dict[str, str], size: int
) -> None:
    path = f"{container}/a"
    check_said(raw("PUT", path, b"", {"x-ms-blob-type": "AppendBlob", **seal}).headers, seal)
    data = b""
    for number in range(12):
        piece = plain(size, str(number))
        data += piece
        done = raw("PUT", path, piece, seal, comp="appendblock")
        assert done.status == 201, done.text
        check_said(done.headers, seal)
    check_ranges(raw, path, data, seal)
    if size > 20:
        assert b"plain text" not in stored(server, container)


@seals
def test_page_blobs(server: Server, raw: RawClient, container: str, seal: dict[str, str]) -> None:
    path = f"{container}/a"
    size = 1 << 20
    created = {"x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": str(size), **seal}
    assert raw("PUT", path, b"", created).status == 201
    expected = bytearray(size)
    for start, length in ((512, 512), (130 * 1024, 200 * 1024), (140 * 1024, 512), (0, 66_048)):
        data = plain(length, str(start))
        wanted = {"x-ms-page-write": "update", "x-ms-range": f"bytes={start}-{start + length - 1}"}
        done = raw("PUT", path, data, {**wanted, **seal}, comp="page")
        assert done.status == 201, done.text
        check_said(done.headers, seal)
        expected[start : start + length] = data
    check_ranges(raw, path, bytes(expected), seal)
    for first, last in ((140_000, 150_000), (66_000, 66_100), (700, 262_144)):
        wanted = {**reads(seal), "x-ms-range": f"bytes={first}-{last}"}
        assert raw("GET", path, headers=wanted).body == expected[first : last + 1]
    assert b"plain text" not in stored(server, container)


def test_the_key_is_nowhere(server: Server, raw: RawClient, container: str) -> None:
    strange = hashlib.sha256(b"strange").digest()
    put(raw, f"{container}/a", plain(1000), key_headers(strange))
    everything = stored(server, container)
    assert strange not in everything
    assert encode(strange).encode() not in everything
    assert hashlib.sha256(strange).digest() in everything


@seals
def test_the_same_content_is_never_stored_alike(
    server: Server, raw: RawClient, container: str, seal: dict[str, str]
) -> None:
    """Neither twice in one place, nor in two places under the same key."""
    data = bytes(70_000)

    def ciphertexts(at: Server) -> list[bytes]:
        async def read() -> list[bytes]:
            return [
                b"".join([p async for p in at.extents.read(Extent(kept.id, kept.stored_bytes))])
                async for kept in at.extents.list()
            ]

        return at.run(read())

    for name in ("a", "b"):
        assert put(raw, f"{container}/{name}", data, seal).status == 201
    elsewhere = Server()
    client = RawClient(elsewhere.port)
    client("PUT", container, restype="container")
    put(client, f"{container}/a", data, seal)
    found = ciphertexts(server) + ciphertexts(elsewhere)
    assert len(found) == len(set(found)) == 3
    client.close()
    elsewhere.stop()


@seals
@pytest.mark.parametrize("forgotten", [False, True])
def test_keys_are_the_stores_and_not_the_processs(
    server: Server, raw: RawClient, container: str, seal: dict[str, str], forgotten: bool
) -> None:
    """Another process reads what this one wrote, also after everything was forgotten."""
    put(raw, f"{container}/a", b"before", seal)
    if forgotten:
        server.run(server.engine.reset())
        assert raw("PUT", container, restype="container").status == 201
    put(raw, f"{container}/a", b"data", seal)
    server.service.vault = Vault(server.engine, SystemEntropy())
    assert raw("GET", f"{container}/a", headers=reads(seal)).body == b"data"


async def test_processes_agree_on_a_new_scope() -> None:
    engine = MemoryEngine(RealClock())
    vaults = [Vault(engine, SystemEntropy()) for _ in range(5)]
    made = await asyncio.gather(*(vault.seal_of_scope("account", "new") for vault in vaults))
    assert len({seal.key for seal in made}) == 1
    assert (await vaults[0].seal_of_scope("account", "other")).key != made[0].key
    assert (await vaults[0].seal_of_scope("another", "new")).key != made[0].key


@seals
def test_a_lost_key_is_found_out(
    server: Server, raw: RawClient, container: str, seal: dict[str, str]
) -> None:
    put(raw, f"{container}/a", b"data", seal)
    assert server.problems() == []
    part = keys.account_partition(development_name)
    row = keys.scope_key(seal.get("x-ms-encryption-scope", ""))

    async def lose(tx: Tx) -> None:
        tx.delete(part, row)

    server.run(server.engine.write((part,), lose))
    (problem,) = server.problems()
    assert "the key of its scope" in problem
    raw("DELETE", f"{container}/a")
    assert server.problems() == []


# ---- who may read and write


operations = [
    ("GET", {}, {}, None),
    ("GET", {}, {"x-ms-range": "bytes=0-1"}, None),
    ("HEAD", {}, {}, None),
    ("GET", {"comp": "metadata"}, {}, None),
    ("PUT", {"comp": "metadata"}, {"x-ms-meta-a": "b"}, None),
    ("PUT", {"comp": "snapshot"}, {}, None),
    ("PUT", {"comp": "blocklist"}, {}, b"<BlockList><Latest>MDAwMA==</Latest></BlockList>"),
]


@pytest.mark.parametrize(("method", "query", "headers", "body"), operations)
@pytest.mark.parametrize(
    ("kept", "sent", "code"),
    [
        (with_key, {}, "BlobUsesCustomerSpecifiedEncryption"),
        (with_key, with_other_key, "BlobUsesCustomerSpecifiedEncryption"),
        ({}, with_key, "BlobDoesNotUseCustomerSpecifiedEncryption"),
        (with_key, with_key, ""),
        ({}, {}, ""),
    ],
)
def test_the_key_that_is_needed(
    raw: RawClient, container: str, method, query, headers, body, kept, sent, code
) -> None:
    path = f"{container}/a"
    stage(raw, path, 0, b"data", kept)
    made = commit(raw, path, [0], kept)
    reply = raw(method, path, body, {**headers, **sent}, **query)
    if not code:
        assert reply.status in (200, 201, 206), reply.text
        return
    assert (reply.status, reply.code) == (409, code)
    assert raw("HEAD", path, headers=kept).etag == made.etag
    assert raw("GET", path, headers=kept).body == b"data"


@pytest.mark.parametrize("kept", [{}, with_key, with_scope])
@pytest.mark.parametrize("sent", [{}, with_key, with_scope])
def test_blocks_need_not_be_encrypted_as_what_they_replace(
    raw: RawClient, container: str, kept, sent
) -> None:
    """Seen on the live service.  What is committed together is encrypted alike."""
    path = f"{container}/a"
    stage(raw, path, 0, b"old", kept)
    commit(raw, path, [0], kept)
    stage(raw, path, 1, b"new", sent)
    other = with_other_key if sent == with_key else with_key
    refused = raw("PUT", path, b"x", other, comp="block", blockid="MDAwMg==")
    assert refused.status == 409
    if kept != sent:
        mixed = "<BlockList><Latest>MDAwMA==</Latest><Latest>MDAwMQ==</Latest></BlockList>"
        for headers in (kept, sent):
            assert raw("PUT", path, mixed, headers, comp="blocklist").status == 409
    commit(raw, path, [1], sent)
    assert raw("GET", path, headers={} if sent == with_scope else sent).body == b"new"


@pytest.mark.parametrize(
    ("kept", "sent", "status"),
    [
        (with_scope, with_scope, 200),
        (with_scope, {}, 409),
        (with_scope, with_other_scope, 409),
        ({}, with_scope, 409),
    ],
)
def test_the_scope_that_is_needed_to_write(
    raw: RawClient, container: str, kept, sent, status
) -> None:
    path = f"{container}/a"
    raw("PUT", path, b"", {"x-ms-blob-type": "AppendBlob", **kept})
    assert raw("PUT", path, b"data", kept, comp="appendblock").status == 201
    for body, query in ((b"x", "appendblock"), (None, "metadata"), (None, "snapshot")):
        reply = raw("PUT", path, body, sent, comp=query)
        assert (reply.status == 409) == (status == 409), reply.text
    # Reading takes no scope, and minds none.
    assert raw("GET", path, headers=sent).body == (b"data" if status == 409 else b"datax")
    assert raw("HEAD", path).headers.get("x-ms-encryption-scope") == kept.get(
        "x-ms-encryption-scope"
    )


def test_operations_that_want_no_key(raw: RawClient, container: str) -> None:
    path = f"{container}/a"
    put(raw, path, b"data", with_key)
    tags = "<Tags><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tags>"
    assert raw("PUT", path, tags, comp="tags").status == 204
    assert raw("PUT", path, None, {"x-ms-access-tier": "Cool"}, comp="tier").status == 200
    acquire = {"x-ms-lease-action": "acquire", "x-ms-lease-duration": "15"}
    assert raw("PUT", path, None, acquire, comp="lease").status == 201
    release = {"x-ms-lease-action": "break", "x-ms-lease-break-period": "0"}
    assert raw("PUT", path, None, release, comp="lease").status == 202
    assert raw("DELETE", path).status == 202


def test_overwriting_changes_the_key(raw: RawClient, container: str) -> None:
    path = f"{container}/a"
    put(raw, path, b"one", with_key)
    for number, seal in enumerate((with_other_key, {}, with_scope, with_key)):
        data = b"%d" % number
        assert put(raw, path, data, seal).status == 201
        assert raw("GET", path, headers=reads(seal)).body == data


def test_blocks_of_one_blob_have_one_key(raw: RawClient, container: str) -> None:
    path = f"{container}/a"
    assert stage(raw, path, 0, b"data", with_key).status == 201
    for seal in ({}, with_other_key, with_scope):
        refused = stage(raw, path, 1, b"more", seal)
        assert (refused.status, refused.code) == (409, "BlobUsesCustomerSpecifiedEncryption")
        refused = commit(raw, path, [0], seal)
        assert (refused.status, refused.code) == (409, "BlobUsesCustomerSpecifiedEncryption")
    assert commit(raw, path, [0], with_key).status == 201
    assert raw("GET", path, headers=with_key).body == b"data"


@seals
def test_snapshots_have_the_key_of_their_blob(
    server: Server, raw: RawClient, container: str, seal: dict[str, str]
) -> None:
    path = f"{container}/a"
    data = plain(100_000)
    put(raw, path, data, seal)
    moment = raw("PUT", path, None, seal, comp="snapshot").headers["x-ms-snapshot"]
    put(raw, path, b"new", with_other_key)
    got = raw("GET", path, headers=reads(seal), snapshot=moment)
    assert got.body == data
    check_said(got.headers, seal)
    assert raw("GET", path, headers=with_other_key).body == b"new"
    assert server.problems() == []


def test_listings(raw: RawClient, container: str) -> None:
    put(raw, f"{container}/key", b"x", {**with_key, "x-ms-meta-secret": "hidden"})
    put(raw, f"{container}/scope", b"x", {**with_scope, "x-ms-meta-known": "shown"})
    text = raw("GET", container, restype="container", comp="list", include="metadata").text
    digest = with_key["x-ms-encryption-key-sha256"]
    assert text.count(f"<CustomerProvidedKeySha256>{digest}</CustomerProvidedKeySha256>") == 1
    assert text.count("<EncryptionScope>secrets</EncryptionScope>") == 1
    assert '<Metadata Encrypted="true" />' in text
    assert "hidden" not in text
    assert "shown" in text


bad_headers = [
    ({"x-ms-encryption-key": None}, "MissingRequiredHeader"),
    ({"x-ms-encryption-key-sha256": None}, "MissingRequiredHeader"),
    ({"x-ms-encryption-algorithm": "AES128"}, "InvalidHeaderValue"),
    ({"x-ms-encryption-key": "!"}, "InvalidHeaderValue"),
    ({"x-ms-encryption-key": encode(bytes(31))}, "InvalidHeaderValue"),
    ({"x-ms-encryption-key": encode(bytes(32))}, "InvalidHeaderValue"),
    ({"x-ms-encryption-key-sha256": encode(bytes(32))}, "InvalidHeaderValue"),
    ({"x-ms-encryption-key-sha256": "!"}, "InvalidHeaderValue"),
    ({"x-ms-encryption-scope": "secrets"}, "InvalidHeaderValue"),
]


@pytest.mark.parametrize(("changed", "code"), bad_headers)
def test_bad_keys_change_nothing(raw: RawClient, container: str, changed, code) -> None:
    headers = {n: v for n, v in {**with_key, **changed}.items() if v is not None}
    path = f"{container}/a"
    reply = put(raw, path, b"data", headers)
    assert (reply.status, reply.code) == (400, code), reply.text
    assert encode(key) not in reply.text
    assert raw("HEAD", path).status == 404
    if "x-ms-encryption-scope" in changed:
        return
    put(raw, path, b"data", with_key)
    reply = raw("GET", path, headers=headers)
    assert (reply.status, reply.code) == (400, code)


@pytest.mark.parametrize("name", ["ab", "a" * 64, "under_score", "sp ace", "../up"])
def test_bad_scopes_change_nothing(raw: RawClient, container: str, name: str) -> None:
    reply = put(raw, f"{container}/a", b"data", {"x-ms-encryption-scope": name})
    assert (reply.status, reply.code) == (400, "InvalidHeaderValue")
    assert raw("HEAD", f"{container}/a").status == 404
    created = raw(
        "PUT", "/more", None, {"x-ms-default-encryption-scope": name}, restype="container"
    )
    assert (created.status, created.code) == (400, "InvalidHeaderValue")


@seals
def test_queries(raw: RawClient, container: str, seal: dict[str, str]) -> None:
    pytest.importorskip("duckdb", reason="Query Blob Contents needs the extra")
    path = f"{container}/a"
    put(raw, path, b"one,1\ntwo,2\n" * 10_000, seal)
    wanted = (
        "<QueryRequest><QueryType>SQL</QueryType>"
        "<Expression>SELECT _1 FROM BlobStorage WHERE _2 = '2' LIMIT 1</Expression></QueryRequest>"
    )
    found = raw("POST", path, wanted, reads(seal), comp="query")
    assert found.status == 200, found.text
    assert b"two" in found.body
    if reads(seal):
        refused = raw("POST", path, wanted, comp="query")
        assert (refused.status, refused.code) == (409, "BlobUsesCustomerSpecifiedEncryption")


# ---- containers with a scope of their own, and signatures with one


@pytest.fixture
def scoped(raw: RawClient) -> str:
    headers = {"x-ms-default-encryption-scope": "secrets"}
    assert raw("PUT", "/scoped", None, headers, restype="container").status == 201
    return "/scoped"


@pytest.fixture
def strict(raw: RawClient) -> str:
    headers = {
        "x-ms-default-encryption-scope": "secrets",
        "x-ms-deny-encryption-scope-override": "true",
    }
    assert raw("PUT", "/strict", None, headers, restype="container").status == 201
    return "/strict"


def test_a_containers_scope_is_everybodys(server: Server, raw: RawClient, scoped: str) -> None:
    found = raw("HEAD", scoped, restype="container").headers
    assert found["x-ms-default-encryption-scope"] == "secrets"
    assert found["x-ms-deny-encryption-scope-override"] == "false"
    put(raw, f"{scoped}/a", plain(1000), {})
    assert raw("HEAD", f"{scoped}/a").headers["x-ms-encryption-scope"] == "secrets"
    assert raw("PUT", f"{scoped}/a", None, {"x-ms-meta-a": "b"}, comp="metadata").status == 200
    assert b"plain text" not in stored(server, scoped)
    assert raw("GET", f"{scoped}/a").body == plain(1000)
    put(raw, f"{scoped}/b", b"x", with_other_scope)
    assert raw("HEAD", f"{scoped}/b").headers["x-ms-encryption-scope"] == "others"
    put(raw, f"{scoped}/c", b"x", with_key)
    assert "x-ms-encryption-scope" not in raw("HEAD", f"{scoped}/c", headers=with_key).headers
    put(raw, f"{scoped}/d", b"x", {"x-ms-encryption-scope": "$account-encryption-key"})
    assert "x-ms-encryption-scope" not in raw("HEAD", f"{scoped}/d").headers


@pytest.mark.parametrize(
    ("seal", "status"),
    [
        ({}, 201),
        (with_scope, 201),
        (with_other_scope, 403),
        (with_key, 403),
        ({"x-ms-encryption-scope": "$account-encryption-key"}, 403),
    ],
)
def test_a_container_that_allows_no_other_scope(
    raw: RawClient, strict: str, seal: dict[str, str], status: int
) -> None:
    append = {"x-ms-blob-type": "AppendBlob"}
    for reply, name in (
        (put(raw, f"{strict}/a", b"x", seal), "a"),
        (stage(raw, f"{strict}/b", 0, b"x", seal), "b"),
        (commit(raw, f"{strict}/c", [], seal), "c"),
        (raw("PUT", f"{strict}/d", b"", {**append, **seal}), "d"),
    ):
        assert reply.status == status
        if status == 403:
            assert reply.code == "RequestForbiddenByContainerEncryptionPolicy"
            assert raw("HEAD", f"{strict}/{name}").status == 404
        else:
            assert reply.headers["x-ms-encryption-scope"] == "secrets"


def signed_for(scope: str, container: str) -> str:
    return generate_container_sas(
        development_name,
        container.strip("/"),
        account_key=development_key,
        permission=ContainerSasPermissions(read=True, write=True, create=True),
        expiry=datetime.now(UTC) + timedelta(hours=1),
        encryption_scope=scope,
    )


def test_a_signature_brings_its_scope(raw: RawClient, container: str, strict: str) -> None:
    raw.sas = signed_for("signed", container)
    made = put(raw, f"{container}/a", b"x", {})
    assert made.status == 201, made.text
    assert made.headers["x-ms-encryption-scope"] == "signed"
    assert put(raw, f"{container}/a", b"x", {"x-ms-encryption-scope": "signed"}).status == 201
    refused = put(raw, f"{container}/b", b"x", with_scope)
    assert (refused.status, refused.code) == (400, "InvalidHeaderValue")
    assert raw("HEAD", f"{container}/b").status == 404
    assert raw("GET", f"{container}/a").body == b"x"
    raw.sas = signed_for("signed", strict)
    refused = put(raw, f"{strict}/a", b"x", {})
    assert (refused.status, refused.code) == (403, "RequestForbiddenByContainerEncryptionPolicy")
    raw.sas = signed_for("secrets", strict)
    assert put(raw, f"{strict}/a", b"x", {}).status == 201


# ---- copies


def copy(server: Server, raw: RawClient, path: str, source: str, headers: dict[str, str]) -> Reply:
    url = f"{server.url}{source}?{raw.sas}"
    return raw("PUT", path, None, {"x-ms-copy-source": url, **headers})


ways = pytest.mark.parametrize(
    "way",
    [{}, {"x-ms-requires-sync": "true"}, {"x-ms-blob-type": "BlockBlob"}],
    ids=["copy", "sync", "put"],
)


@ways
@pytest.mark.parametrize("size", sizes)
@pytest.mark.parametrize("beside", [True, False])
@pytest.mark.parametrize("before", [{}, with_scope], ids=["plain", "scope"])
@pytest.mark.parametrize(
    "after", [{}, with_scope, with_other_scope, with_key], ids=["plain", "scope", "other", "key"]
)
def test_copies_are_encrypted_as_they_ask(
    server: Server, raw: RawClient, container: str, way, size, beside, before, after
) -> None:
    raw("PUT", "/elsewhere", restype="container")
    data = plain(size)
    assert put(raw, f"{container}/a", data, {**before, "x-ms-meta-a": "b"}).status == 201
    path = f"{container if beside else '/elsewhere'}/b"
    done = copy(server, raw, path, f"{container}/a", {**way, **after})
    assert done.status in (201, 202), done.text
    check_said(done.headers, after)
    check_ranges(raw, path, data, after)
    found = raw("HEAD", path, headers=reads(after)).headers
    check_said(found, after)
    assert found["x-ms-meta-a"] == "b"
    raw("DELETE", f"{container}/a")
    server.clock.advance(3600)
    server.sweep()
    check_ranges(raw, path, data, after)
    if after and size > 20:
        assert b"plain text" not in stored(server, path.rsplit("/", 1)[0])


def test_a_block_list_is_copied_as_one(server: Server, raw: RawClient, container: str) -> None:
    path, source = f"{container}/b", f"{container}/a"
    pieces = [plain(size, str(size)) for size in (10, 70_000, 3, 100_000, *range(1, 12))]
    for number, piece in enumerate(pieces):
        stage(raw, source, number, piece, with_key)
    numbers = [*range(len(pieces)), 1, 0]
    made = commit(raw, source, numbers, with_key)
    source_key = key_headers(key, "x-ms-source-")
    assert copy(server, raw, path, source, {**source_key, **with_scope}).status == 202
    for wanted in (source, path):
        listed = raw("GET", wanted, comp="blocklist").text
        assert listed.count("<Block>") == len(numbers)
        assert [block_id(n) for n in numbers] == re.findall("<Name>(.*?)</Name>", listed)
    check_ranges(raw, path, b"".join(pieces[n] for n in numbers), with_scope)
    # What is refused leaves no extents behind.
    extents = server.run(server.extents.usage()).extents
    refused = copy(
        server, raw, path, source, {**source_key, **with_other_scope, "If-Match": made.etag}
    )
    assert (refused.status, refused.code) == (412, "ConditionNotMet")
    server.clock.advance(3600)
    server.sweep()
    assert server.run(server.extents.usage()).extents == extents


@seals
def test_a_page_blob_is_put_as_a_block_blob(
    server: Server, raw: RawClient, container: str, seal: dict[str, str]
) -> None:
    path, source = f"{container}/b", f"{container}/a"
    created = {"x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": "4096"}
    raw("PUT", source, b"", {**created, **seal})
    page = {"x-ms-page-write": "update", "x-ms-range": "bytes=512-1535"}
    raw("PUT", source, plain(1024), {**page, **seal}, comp="page")
    wanted = {"x-ms-blob-type": "BlockBlob"}
    if reads(seal):
        wanted |= key_headers(key, "x-ms-source-")
    made = copy(server, raw, path, source, {**wanted, **with_other_key})
    assert made.status == 201, made.text
    expected = bytes(512) + plain(1024) + bytes(2560)
    check_ranges(raw, path, expected, with_other_key)
    assert b"plain text" not in stored(server, container)


def test_append_blobs_are_copied_and_appended_to(
    server: Server, raw: RawClient, container: str
) -> None:
    path, source = f"{container}/b", f"{container}/a"
    raw("PUT", source, b"", {"x-ms-blob-type": "AppendBlob", **with_scope})
    data = b""
    for number in range(10):
        data += plain(1000, str(number))
        raw("PUT", source, plain(1000, str(number)), with_scope, comp="appendblock")
    assert copy(server, raw, path, source, with_other_scope).status == 202
    done = raw("PUT", path, b"more", with_other_scope, comp="appendblock")
    assert done.headers["x-ms-blob-committed-block-count"] == "11"
    check_ranges(raw, path, data + b"more", {})
    assert raw("GET", source).body == data
    assert b"plain text" not in stored(server, container)


@ways
def test_a_source_with_a_key(server: Server, raw: RawClient, container: str, way) -> None:
    source, path = f"{container}/a", f"{container}/b"
    put(raw, source, b"data", with_key)
    for headers in ({}, key_headers(other_key, "x-ms-source-")):
        refused = copy(server, raw, path, source, {**way, **headers})
        code = "CannotVerifyCopySource" if way else "BlobUsesCustomerSpecifiedEncryption"
        assert (refused.status, refused.code) == (409, code)
    assert raw("HEAD", path).status == 404
    with_source_key = key_headers(key, "x-ms-source-")
    assert copy(server, raw, path, source, {**way, **with_source_key}).status in (201, 202)
    assert raw("GET", path).body == b"data"
    again = copy(server, raw, path, source, {**way, **with_source_key, **with_other_key})
    assert again.status in (201, 202)
    assert raw("GET", path, headers=with_other_key).body == b"data"
    old = RawClient(server.port, version="2026-02-06")
    refused = copy(server, old, path, source, {**way, **with_source_key})
    assert (refused.status, refused.code) == (400, "InvalidHeaderValue")
    old.close()


def test_blocks_from_a_source_with_a_key(server: Server, raw: RawClient, container: str) -> None:
    source, path = f"{container}/a", f"{container}/b"
    data = plain(100_000)
    put(raw, source, data, with_key)
    url = f"{server.url}{source}?{raw.sas}"
    wanted = {"x-ms-copy-source": url, "x-ms-source-range": "bytes=17-90000", **with_scope}
    refused = raw("PUT", path, None, wanted, comp="block", blockid=block_id(0))
    assert (refused.status, refused.code) == (409, "CannotVerifyCopySource")
    wanted |= key_headers(key, "x-ms-source-")
    done = raw("PUT", path, None, wanted, comp="block", blockid=block_id(0))
    assert done.status == 201, done.text
    check_said(done.headers, with_scope)
    assert commit(raw, path, [0], with_scope).status == 201
    assert raw("GET", path).body == data[17:90_001]


def test_a_copy_from_elsewhere_is_in_the_containers_scope(
    server: Server, raw: RawClient, scoped: str, elsewhere: str
) -> None:
    path = f"{scoped}/a"
    refused = raw("PUT", path, None, {"x-ms-copy-source": f"{elsewhere}/a", **with_key})
    # A key would have to be kept until the copy is done.
    assert (refused.status, refused.code) == (400, "InvalidHeaderValue")
    assert raw("HEAD", path).status == 404
    assert raw("PUT", path, None, {"x-ms-copy-source": f"{elsewhere}/a"}).status == 202
    assert settled(raw, path).headers["x-ms-copy-status"] == "success"
    assert raw("GET", path).body == large
    assert raw("HEAD", path).headers["x-ms-encryption-scope"] == "secrets"
    assert large[1000:1100] not in stored(server, scoped)
