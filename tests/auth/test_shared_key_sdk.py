"""Requests that the official SDKs sign, verified as they would arrive."""

import io
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from auth_samples import account, key, keys, other_key, secret
from azure.core import MatchConditions
from azure.core.credentials import AzureNamedKeyCredential
from azure.data.tables import TableServiceClient, UpdateMode
from azure.storage.blob import BlobServiceClient, ContentSettings
from azure.storage.queue import QueueServiceClient
from sdk_capture import KeepingTransport, as_received, kept, sent_at

from etagere.auth.authorization import KeyCredential, parse_authorization
from etagere.auth.shared_key import strings_to_sign, verify
from etagere.base.errors import Refused

Calls = Mapping[str, Callable[[Any], object]]


def check(
    transport: KeepingTransport,
    service: str,
    *,
    documented: bool = True,
    secondary: bool = False,
) -> None:
    (sent,) = transport.requests
    request = as_received(sent, service=service, secondary=secondary)
    credential = parse_authorization(request.headers["authorization"])
    assert isinstance(credential, KeyCredential)
    assert credential.account == account
    scheme, signature, now = credential.scheme, credential.signature, sent_at(request)
    assert verify(request, scheme, account, signature, keys, now).key_index == 0
    with pytest.raises(Refused):
        verify(request, scheme, account, signature, (other_key,), now)
    first = next(strings_to_sign(request, scheme))
    assert key.signed(first, signature) is documented


def first_page(pages: Any) -> object:
    return next(iter(pages))


blob_calls: Calls = {
    "list containers": lambda c: first_page(
        c.list_containers(name_starts_with="a+b c/é", include_metadata=True)
    ),
    "service properties": lambda c: c.get_service_properties(),
    "create container": lambda c: c.create_container(
        "c1", metadata={"a1": "x", "b": ""}, public_access="blob"
    ),
    "list blobs": lambda c: first_page(
        c.get_container_client("c1").list_blobs(
            name_starts_with="a&b=c", include=["metadata", "tags"]
        )
    ),
    "put blob": lambda c: c.get_blob_client("c1", "dir/é ü+%25.txt").upload_blob(
        b"hello",
        content_settings=ContentSettings(content_type="text/plain", content_language="fr"),
        metadata={"k": "v w"},
        tags={"t 1": "v&2"},
        overwrite=True,
    ),
    "put empty blob": lambda c: c.get_blob_client("c1", "b").upload_blob(b""),
    "put block": lambda c: c.get_blob_client("c1", "b").stage_block("YQ+/==", io.BytesIO(b"x")),
    "get range": lambda c: c.get_blob_client("c1", "b").download_blob(offset=3, length=9),
    "get if changed": lambda c: c.get_blob_client("c1", "b").get_blob_properties(
        etag='"0x1"', match_condition=MatchConditions.IfModified
    ),
    "snapshot read": lambda c: c.get_blob_client(
        "c1", "b", snapshot="2026-03-01T12:00:00.1234567Z"
    ).get_blob_properties(),
    "lease": lambda c: c.get_blob_client("c1", "b").acquire_lease(15),
    "find by tags": lambda c: first_page(c.find_blobs_by_tags("\"a b\"='c+d' AND e>'f'")),
    "delete": lambda c: c.get_blob_client("c1", "b").delete_blob(delete_snapshots="include"),
}
undocumented_blob_calls: Calls = {
    "order of a culture": lambda c: c.create_container("c1", metadata={"a1": "x", "a_b": "y"}),
    "runs of spaces": lambda c: c.create_container("c1", metadata={"a1": "x  y"}),
}
queue_calls: Calls = {
    "list queues": lambda c: first_page(c.list_queues(name_starts_with="q", include_metadata=True)),
    "create queue": lambda c: c.create_queue("q1", metadata={"a": "b"}),
    "put": lambda c: c.get_queue_client("q1").send_message("hé", visibility_timeout=5),
    "peek": lambda c: c.get_queue_client("q1").peek_messages(3),
    "get": lambda c: first_page(c.get_queue_client("q1").receive_messages(messages_per_page=2)),
    "update": lambda c: c.get_queue_client("q1").update_message("id", "AgA+/=", content="x"),
    "delete": lambda c: c.get_queue_client("q1").delete_message("id", "AgAAA+/AAA=="),
    "acl": lambda c: c.get_queue_client("q1").get_queue_access_policy(),
}
table_calls: Calls = {
    "list tables": lambda c: first_page(c.list_tables()),
    "properties": lambda c: c.get_service_properties(),
    "create table": lambda c: c.create_table("people"),
    "insert": lambda c: c.get_table_client("people").create_entity(
        {"PartitionKey": "a'b", "RowKey": "é /+", "x": 1}
    ),
    "upsert": lambda c: c.get_table_client("people").upsert_entity(
        {"PartitionKey": "a'b", "RowKey": "é /+#?"}, mode=UpdateMode.REPLACE
    ),
    "read": lambda c: c.get_table_client("people").get_entity("p|q", "r*s(t)"),
    "query": lambda c: first_page(
        c.get_table_client("people").query_entities("x gt 5 and y eq 'a+b'", select=["x"])
    ),
    "acl": lambda c: c.get_table_client("people").get_table_access_policy(),
    "batch": lambda c: c.get_table_client("people").submit_transaction(
        [("create", {"PartitionKey": "a", "RowKey": "b"})]
    ),
}


def run(call: Callable[[Any], object], client: Any) -> None:
    with kept():
        call(client)


@pytest.mark.parametrize(
    "host", [f"http://127.0.0.1:10000/{account}", f"https://{account}.blob.core.windows.net"]
)
@pytest.mark.parametrize("call", blob_calls)
@pytest.mark.parametrize("version", ["2019-02-02", "2021-12-02", None])
def test_blob(call: str, host: str, version: str | None) -> None:
    transport = KeepingTransport()
    more: dict[str, Any] = {} if version is None else {"api_version": version}
    client = BlobServiceClient(host, credential=secret, transport=transport, **more)
    run(blob_calls[call], client)
    check(transport, "b")


@pytest.mark.parametrize("call", undocumented_blob_calls)
def test_what_the_python_sdk_signs_in_its_own_way(call: str) -> None:
    transport = KeepingTransport()
    url = f"http://127.0.0.1:10000/{account}"
    run(
        undocumented_blob_calls[call],
        BlobServiceClient(url, credential=secret, transport=transport),
    )
    check(transport, "b", documented=False)


def test_blob_on_the_secondary() -> None:
    transport = KeepingTransport()
    client = BlobServiceClient(
        f"http://127.0.0.1:10000/{account}",
        credential=secret,
        transport=transport,
        secondary_hostname=f"http://127.0.0.1:10000/{account}-secondary",
        location_mode="secondary",
    )
    run(lambda c: c.get_service_stats(), client)
    assert f"/{account}-secondary/" in transport.requests[0].url
    check(transport, "b", secondary=True)


@pytest.mark.parametrize("call", queue_calls)
def test_queue(call: str) -> None:
    transport = KeepingTransport()
    client = QueueServiceClient(
        f"http://127.0.0.1:10001/{account}", credential=secret, transport=transport
    )
    run(queue_calls[call], client)
    check(transport, "q")


@pytest.mark.parametrize("call", table_calls)
@pytest.mark.parametrize(
    "host", [f"http://127.0.0.1:10002/{account}", f"https://{account}.table.core.windows.net"]
)
def test_table(call: str, host: str) -> None:
    transport = KeepingTransport()
    client = TableServiceClient(
        host, credential=AzureNamedKeyCredential(account, secret), transport=transport
    )
    run(table_calls[call], client)
    check(transport, "t")


def test_files() -> None:
    shares = pytest.importorskip(
        "azure.storage.fileshare", reason="azure-storage-file-share is not installed"
    )
    calls: Calls = {
        "list shares": lambda c: first_page(c.list_shares(include_metadata=True)),
        "create share": lambda c: c.create_share("s1", quota=5),
        "create directory": lambda c: c.get_share_client("s1").create_directory("dïr one"),
        "put range": lambda c: (
            c.get_share_client("s1")
            .get_file_client("dïr/f 1.txt")
            .upload_range(b"12345", offset=5, length=5)
        ),
        "list": lambda c: first_page(
            c.get_share_client("s1").list_directories_and_files("d", name_starts_with="a b")
        ),
    }
    for call in calls.values():
        transport = KeepingTransport()
        client = shares.ShareServiceClient(
            f"http://127.0.0.1:10003/{account}", credential=secret, transport=transport
        )
        run(call, client)
        check(transport, "f")


def test_data_lake() -> None:
    lake = pytest.importorskip(
        "azure.storage.filedatalake", reason="azure-storage-file-datalake is not installed"
    )
    calls: Calls = {
        "create file system": lambda c: c.create_file_system("fs"),
        "create directory": lambda c: c.get_file_system_client("fs").create_directory("a/b ç"),
        "append": lambda c: (
            c.get_file_system_client("fs").get_file_client("a/f").append_data(b"123", 0)
        ),
        "flush": lambda c: c.get_file_system_client("fs").get_file_client("a/f").flush_data(3),
        "list paths": lambda c: first_page(
            c.get_file_system_client("fs").get_paths("a/b", recursive=True)
        ),
        "rename": lambda c: (
            c.get_file_system_client("fs").get_directory_client("a/b").rename_directory("fs/c d")
        ),
    }
    for call in calls.values():
        transport = KeepingTransport()
        client = lake.DataLakeServiceClient(
            f"https://{account}.dfs.core.windows.net", credential=secret, transport=transport
        )
        run(call, client)
        check(transport, "b")
