"""Tokens that the official Python SDKs make, verified for what they were made for."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from auth_samples import account, key, now, other_key, secret
from azure.core.credentials import AzureNamedKeyCredential
from azure.data import tables
from azure.storage import blob, queue
from sas_samples import carrying, verified

from etagere.auth.claims import Claims
from etagere.auth.delegation import issue
from etagere.auth.identity import SasIdentity
from etagere.auth.key_range import KeyRange
from etagere.auth.request import ResourceName
from etagere.auth.sas import parse, verify
from etagere.auth.sas_token import ResponseOverrides, SasKind
from etagere.base.clock import Timestamp, ticks_per_second
from etagere.base.errors import Refused

begin = datetime(2026, 3, 1, 11, tzinfo=UTC)
end = datetime(2026, 3, 1, 13, tzinfo=UTC)
span: dict[str, Any] = {"start": begin, "expiry": end}


def ticks(moment: datetime) -> Timestamp:
    return Timestamp(round(moment.timestamp()) * ticks_per_second)


def refused(token: str, name: ResourceName) -> None:
    with pytest.raises(Refused, match="AuthenticationFailed"):
        verified(token, name)


def accepted(token: str, name: ResourceName, *others: ResourceName) -> SasIdentity:
    """The token opens its resource with the key that made it, and no other resource."""
    for other in others:
        refused(token, other)
    with pytest.raises(Refused, match="AuthenticationFailed"):
        verified(token, name, keys=(other_key,))
    identity = verified(token, name, keys=(other_key, key))
    assert identity.key_index == 1
    return identity


def test_account_tokens_of_every_package() -> None:
    made = {
        "b": blob.generate_account_sas(
            account,
            secret,
            blob.ResourceTypes(service=True, container=True, object=True),
            blob.AccountSasPermissions(read=True, write=True, tag=True, filter_by_tags=True),
            services=blob.Services(blob=True, queue=True),
            ip="127.0.0.1-127.0.0.9",
            protocol="https",
            encryption_scope="scope",
            **span,
        ),
        "q": queue.generate_account_sas(
            account, secret, queue.ResourceTypes(object=True), "rwap", **span
        ),
        "t": tables.generate_account_sas(
            AzureNamedKeyCredential(account, secret),
            tables.ResourceTypes(service=True, object=True),
            tables.AccountSasPermissions(read=True, add=True),
            **span,
        ),
    }
    for service, token in made.items():
        identity = accepted(token, ResourceName(service, "any", "thing"))
        assert identity.kind is SasKind.ACCOUNT
        assert service in identity.services
        assert (identity.starts, identity.expires) == (ticks(begin), ticks(end))
    rich = verified(made["b"], ResourceName("b"))
    assert set(rich.permissions) == set("rwtf")
    assert set(rich.resource_types) == set("sco")
    assert rich.encryption_scope == "scope"


def test_account_token_of_files() -> None:
    shares = pytest.importorskip(
        "azure.storage.fileshare", reason="azure-storage-file-share is not installed"
    )
    token = shares.generate_account_sas(
        account, secret, shares.ResourceTypes(object=True), "rw", **span
    )
    assert accepted(token, ResourceName("f", "s", "f")).services == "f"


overrides: dict[str, Any] = {
    "cache_control": "no-store",
    "content_disposition": 'attachment; filename="a b+c.txt"',
    "content_encoding": "gzip",
    "content_language": "fr",
    "content_type": "text/plain; charset=utf-8",
}


def test_blob_tokens() -> None:
    here = ResourceName("b", "c", "dir/é ü+%25.txt")
    elsewhere = [
        ResourceName("b", "c", "dir/é ü+%25.tx"),
        ResourceName("b", "c"),
        ResourceName("b", "d", here.path),
        ResourceName("b"),
        ResourceName("f", "c", here.path),
    ]
    token = blob.generate_blob_sas(
        account,
        here.container,
        here.path,
        account_key=secret,
        permission=blob.BlobSasPermissions(read=True, create=True, tag=True),
        ip="127.0.0.1",
        protocol="https,http",
        encryption_scope="scope",
        **overrides,
        **span,
    )
    identity = accepted(token, here, *elsewhere)
    assert identity.kind is SasKind.SERVICE
    assert identity.scope == "b"
    assert set(identity.permissions) == set("rct")
    assert identity.overrides == ResponseOverrides(**overrides)
    assert identity.encryption_scope == "scope"


def test_snapshot_and_version_tokens() -> None:
    moment, version = "2026-03-01T10:00:00.1234567Z", "2026-03-01T10:00:00.7654321Z"
    base = ResourceName("b", "c", "b")
    snapshot = ResourceName("b", "c", "b", snapshot=moment)
    versioned = ResourceName("b", "c", "b", version_id=version)
    made: dict[str, Any] = {"account_key": secret, "permission": "r", **span}
    token = blob.generate_blob_sas(account, "c", "b", snapshot=moment, **made)
    other = ResourceName("b", "c", "b", snapshot=version)
    assert accepted(token, snapshot, base, other, versioned).scope == "bs"
    token = blob.generate_blob_sas(account, "c", "b", version_id=version, **made)
    assert accepted(token, versioned, base, snapshot).scope == "bv"
    token = blob.generate_blob_sas(account, "c", "b", **made)
    assert accepted(token, base).scope == "b"


def test_container_tokens() -> None:
    token = blob.generate_container_sas(
        account,
        "c",
        account_key=secret,
        permission=blob.ContainerSasPermissions(read=True, list=True, delete=True),
        **span,
    )
    other = ResourceName("b", "cc")
    identity = accepted(token, ResourceName("b", "c", "any/blob"), other, ResourceName("b"))
    assert identity == verified(token, ResourceName("b", "c"), keys=(other_key, key))
    assert identity.scope == "c"


def test_tokens_of_a_policy_have_only_its_name() -> None:
    policy = SimpleNamespace(id="p1", start=None, expiry=ticks(end), permission="rl")
    token = blob.generate_container_sas(account, "c", account_key=secret, policy_id="p1")
    identity = verified(token, ResourceName("b", "c", "b"), policy=policy)
    assert (identity.permissions, identity.expires) == ("rl", ticks(end))
    assert identity.policy_id == "p1"
    token = queue.generate_queue_sas(account, "q1", secret, policy_id="p1")
    assert verified(token, ResourceName("q", "q1"), policy=policy).policy_id == "p1"
    credential = AzureNamedKeyCredential(account, secret)
    token = tables.generate_table_sas(credential, "People", policy_id="p1")
    assert verified(token, ResourceName("t", "people"), policy=policy).policy_id == "p1"


def test_queue_tokens() -> None:
    token = queue.generate_queue_sas(
        account, "q1", secret, permission=queue.QueueSasPermissions(read=True, process=True), **span
    )
    identity = accepted(token, ResourceName("q", "q1"), ResourceName("q", "q2"), ResourceName("q"))
    assert identity.permissions == "rp"
    assert identity == verified(token, ResourceName("q", "q1", "message"), keys=(other_key, key))


def test_table_tokens() -> None:
    token = tables.generate_table_sas(
        AzureNamedKeyCredential(account, secret),
        "People",
        permission=tables.TableSasPermissions(read=True, add=True),
        start_pk="a é",
        start_rk="1",
        end_pk="b+c",
        end_rk="2",
        **span,
    )
    identity = accepted(token, ResourceName("t", "pEOPLE"), ResourceName("t", "Peoples"))
    assert identity.key_range == KeyRange("a é", "1", "b+c", "2")


def test_file_tokens() -> None:
    shares = pytest.importorskip(
        "azure.storage.fileshare", reason="azure-storage-file-share is not installed"
    )
    token = shares.generate_file_sas(
        account, "s", ["dir", "é f"], account_key=secret, permission="rw", **overrides, **span
    )
    here = ResourceName("f", "s", "dir/é f")
    identity = accepted(token, here, ResourceName("f", "s", "dir"), ResourceName("f", "s"))
    assert (identity.scope, identity.overrides) == ("f", ResponseOverrides(**overrides))
    token = shares.generate_share_sas(account, "s", account_key=secret, permission="rcwdl", **span)
    assert accepted(token, here, ResourceName("f", "t", "dir/é f")).scope == "s"


def test_data_lake_tokens() -> None:
    lake = pytest.importorskip(
        "azure.storage.filedatalake", reason="azure-storage-file-datalake is not installed"
    )
    made: dict[str, Any] = {"permission": "racwdlmeop", **span}
    token = lake.generate_directory_sas(account, "fs", "a/b é", secret, **made)
    identity = accepted(
        token,
        ResourceName("b", "fs", "a/b é/c/d"),
        ResourceName("b", "fs", "a"),
        ResourceName("b", "fs", "a/bb"),
        ResourceName("b", "fs"),
    )
    assert identity.scope == "d"
    assert identity == verified(token, ResourceName("b", "fs", "a/b é"), keys=(other_key, key))
    for root in ("", "/"):
        token = blob.generate_blob_sas(
            account, "fs", root, account_key=secret, is_directory=True, **made
        )
        identity = accepted(token, ResourceName("b", "fs", "a/b"), ResourceName("b", "gs", "a"))
        assert identity.scope == "d"
    token = lake.generate_file_sas(account, "fs", "a", "f", secret, permission="r", **span)
    assert (
        accepted(token, ResourceName("b", "fs", "a/f"), ResourceName("b", "fs", "f")).scope == "b"
    )
    token = lake.generate_file_system_sas(account, "fs", secret, permission="rl", **span)
    assert accepted(token, ResourceName("b", "fs", "a/f")).scope == "c"


# User delegation -----------------------------------------------------------------------------


def delegated(service: str, **fields: Any) -> Any:
    """A key as the service answers, in the shape that the SDKs take."""
    issued = issue(
        key,
        oid="11111111-2222-3333-4444-555555555555",
        tid="66666666-7777-8888-9999-000000000000",
        start=ticks(begin - timedelta(hours=1)),
        expiry=ticks(end + timedelta(days=1)),
        service=service,
        version="2026-02-06",
        now=now,
        delegated_tid=fields.get("delegated_tid", ""),
    )
    made = blob.UserDelegationKey()
    made.signed_oid = issued.signed_oid
    made.signed_tid = issued.signed_tid
    made.signed_start = issued.signed_start
    made.signed_expiry = issued.signed_expiry
    made.signed_service = issued.signed_service
    made.signed_version = issued.signed_version
    made.signed_delegated_user_tid = issued.signed_delegated_user_tid or None
    made.value = issued.value
    return made


def test_delegated_blob_tokens() -> None:
    here = ResourceName("b", "c", "b")
    made: dict[str, Any] = {"user_delegation_key": delegated("b"), "permission": "r", **span}
    token = blob.generate_blob_sas(account, "c", "b", **overrides, **made)
    identity = accepted(token, here, ResourceName("b", "c", "bb"), ResourceName("b", "c"))
    assert identity.kind is SasKind.DELEGATION
    assert identity.overrides == ResponseOverrides(**overrides)
    token = blob.generate_container_sas(account, "c", encryption_scope="scope", **made)
    assert accepted(token, here, ResourceName("b", "d", "b")).encryption_scope == "scope"
    token = blob.generate_blob_sas(
        account, "c", "b", preauthorized_agent_object_id="agent", correlation_id="corr", **made
    )
    assert accepted(token, here).sas.fields["saoid"] == "agent"


def test_delegated_tokens_of_other_services() -> None:
    token = queue.generate_queue_sas(
        account, "q1", user_delegation_key=delegated("q"), permission="rp", **span
    )
    assert accepted(token, ResourceName("q", "q1"), ResourceName("q", "q2")).permissions == "rp"
    shares = pytest.importorskip(
        "azure.storage.fileshare", reason="azure-storage-file-share is not installed"
    )
    token = shares.generate_file_sas(
        account, "s", ["f"], user_delegation_key=delegated("f"), permission="r", **span
    )
    assert accepted(token, ResourceName("f", "s", "f"), ResourceName("f", "s")).scope == "f"


def test_tokens_that_fix_headers_and_parameters() -> None:
    here = ResourceName("b", "c", "b")
    token = blob.generate_blob_sas(
        account,
        "c",
        "b",
        user_delegation_key=delegated("b"),
        permission="r",
        request_headers={"x-ms-meta-a": "1 2", "If-Match": "*"},
        request_query_params={"comp": "tags"},
        **span,
    )

    def ask(headers: dict[str, str], parameters: str) -> SasIdentity:
        request = carrying(f"{parameters}&{token}", here, headers=headers)
        return verify(parse(request.query), request, here, (key,), now)

    assert ask({"x-ms-meta-a": "1 2", "if-match": "*"}, "comp=tags").permissions == "r"
    for headers, parameters in (
        ({"x-ms-meta-a": "1 2"}, "comp=tags"),
        ({"x-ms-meta-a": "1 3", "if-match": "*"}, "comp=tags"),
        ({"x-ms-meta-a": "1 2", "if-match": "*"}, "comp=metadata"),
        ({"x-ms-meta-a": "1 2", "if-match": "*"}, ""),
    ):
        with pytest.raises(Refused, match="AuthenticationFailed"):
            ask(headers, parameters)


def test_tokens_of_one_user_need_that_users_bearer_token() -> None:
    here = ResourceName("b", "c", "b")
    token = blob.generate_blob_sas(
        account,
        "c",
        "b",
        user_delegation_key=delegated("b", delegated_tid="tenant-2"),
        permission="r",
        user_delegation_oid="user-1",
        **span,
    )
    request = carrying(token, here)
    sas = parse(request.query)
    assert sas.needs_bearer

    def ask(bearer: Claims | None) -> SasIdentity:
        return verify(sas, request, here, (key,), now, None, bearer)

    assert ask(Claims(oid="USER-1", tid="tenant-2")).permissions == "r"
    for bearer in (
        None,
        Claims(),
        Claims(tid="tenant-2"),
        Claims(oid="user-1"),
        Claims(oid="user-2", tid="tenant-2"),
        Claims(oid="user-1", tid="tenant-1"),
    ):
        with pytest.raises(Refused, match="AuthenticationFailed"):
            ask(bearer)
