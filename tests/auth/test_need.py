"""Who may do what: the table of account SAS permissions, written down a second time."""

import itertools

import pytest
from auth_samples import account
from sas_samples import (
    account_fields,
    blob,
    blob_fields,
    container,
    queue,
    queue_fields,
    signed_token,
    table,
    table_fields,
    verified,
)

from etagere.auth import needs
from etagere.auth.claims import Claims
from etagere.auth.identity import (
    BearerIdentity,
    Identity,
    SasIdentity,
    SharedKeyIdentity,
    anonymous,
)
from etagere.auth.key_range import KeyRange, whole_table
from etagere.auth.need import Grant, Need, PublicAccess, authorize
from etagere.auth.request import ResourceName
from etagere.auth.sas import Proof, effective, parse
from etagere.auth.sas_token import SasKind, no_overrides
from etagere.base.errors import Refused

letters = "racwdxyltfmeopiu"
never = None

# group: (need, srt, letters of an account SAS, letters of a service SAS); "&" where all are needed.
rows: dict[str, tuple[Need, str, str, str | None]] = {
    "get service properties": (needs.service_read, "s", "r", never),
    "set service properties": (needs.service_write, "s", "w", never),
    "list containers, queues, shares": (needs.containers_list, "s", "l", never),
    "query tables": (needs.tables_list, "c", "l", never),
    "create container": (needs.container_create, "c", "cw", never),
    "get container properties": (needs.container_read, "c", "r", never),
    "get blob container properties": (needs.container_read_public, "c", "r", never),
    "set container metadata": (needs.container_write, "c", "w", never),
    "delete container": (needs.container_delete, "c", "d", never),
    "lease container": (needs.container_lease, "c", "w", never),
    "break container lease": (needs.container_lease_break, "c", "wd", never),
    "get queue metadata": (needs.queue_metadata_read, "c", "r", "r"),
    "list blobs": (needs.blobs_list, "c", "l", "l"),
    "list directories and files": (needs.files_list, "c", "l", "l"),
    "get blob": (needs.blob_read, "o", "r", "r"),
    "put blob": (needs.blob_create, "o", "cw", "cw"),
    "put block, page, properties": (needs.blob_write, "o", "w", "w"),
    "append block": (needs.blob_append, "o", "aw", "aw"),
    "snapshot blob": (needs.blob_snapshot, "o", "cw", "cw"),
    "lease blob": (needs.blob_lease, "o", "w", "w"),
    "break blob lease": (needs.blob_lease_break, "o", "wd", "wd"),
    "delete blob": (needs.blob_delete, "o", "d", "d"),
    "delete version": (needs.blob_version_delete, "o", "x", "x"),
    "delete permanently": (needs.blob_delete_permanently, "o", "y", "y"),
    "get tags": (needs.blob_tags_read, "o", "t", "t"),
    "set tags": (needs.blob_tags, "o", "t", "t"),
    "find by tags": (needs.blobs_find, "oc", "f", "f"),
    "immutability": (needs.blob_immutability, "o", "i", "i"),
    "put message": (needs.message_put, "o", "a", "a"),
    "get messages": (needs.message_get, "o", "p", "p"),
    "peek messages": (needs.message_peek, "o", "r", "r"),
    "delete message": (needs.message_delete, "o", "p", "p"),
    "clear messages": (needs.messages_clear, "o", "d", never),
    "update message": (needs.message_update, "o", "u", "u"),
    "query entities": (needs.entity_read, "o", "r", "r"),
    "insert entity": (needs.entity_insert, "o", "a", "a"),
    "update entity": (needs.entity_update, "o", "u", "u"),
    "delete entity": (needs.entity_delete, "o", "d", "d"),
    "upsert entity": (needs.entity_upsert, "o", "&au", "&au"),
    "create file": (needs.file_create, "o", "cw", "cw"),
    "get file": (needs.file_read, "o", "r", "r"),
    "set file": (needs.file_write, "o", "w", "w"),
    "delete file": (needs.file_delete, "o", "d", "d"),
}


def account_identity(**fields: str) -> SasIdentity:
    token = signed_token({**account_fields, **fields}, blob)
    return verified(token, blob)


def service_identity(permissions: str) -> SasIdentity:
    return verified(signed_token({**blob_fields, "sp": permissions}, blob), blob)


def suffices(granted: str, wanted: str) -> bool:
    if wanted.startswith("&"):
        return set(wanted[1:]) <= set(granted)
    return bool(set(granted) & set(wanted))


def outcome(identity: Identity, need: Need, name: ResourceName = blob) -> str:
    try:
        authorize(identity, need, name)
    except Refused as refused:
        return refused.code
    return "ok"


def test_every_need_that_a_sas_may_meet_is_in_the_table() -> None:
    elsewhere = {"account_information", "batch", "user_delegation_key", "policies", "policies_read"}
    named = {name: need for name, need in vars(needs).items() if isinstance(need, Need)}
    listed = {id(row[0]) for row in rows.values()}
    assert {name for name, need in named.items() if id(need) not in listed} == elsewhere


@pytest.mark.parametrize("group", rows)
def test_account_tokens(group: str) -> None:
    need, types, wanted, _ = rows[group]
    for size in (1, 2):
        for chosen in itertools.combinations(letters, size):
            granted = "".join(chosen)
            for srt in ("s", "c", "o", "sc", "so", "co", "sco"):
                expected = "ok"
                if not set(srt) & set(types):
                    expected = "AuthorizationResourceTypeMismatch"
                elif not suffices(granted, wanted):
                    expected = "AuthorizationPermissionMismatch"
                assert outcome(account_identity_of(granted, srt), need) == expected, (granted, srt)


_template = account_identity()


def account_identity_of(granted: str, srt: str) -> SasIdentity:
    """Without signing each of thousands anew."""
    fields = {**_template.sas.fields, "sp": granted, "srt": srt}
    return effective(Proof(parse(fields.items()), account, 0), None)


@pytest.mark.parametrize("group", rows)
def test_service_tokens(group: str) -> None:
    need, _, _, wanted = rows[group]
    for granted in [*letters, *(a + b for a, b in itertools.combinations(letters, 2))]:
        identity = service_identity_of(granted)
        if wanted is never:
            assert outcome(identity, need) == "AuthorizationFailure"
        elif suffices(granted, wanted):
            assert outcome(identity, need) == "ok"
        else:
            assert outcome(identity, need) == "AuthorizationPermissionMismatch"


_service_template = service_identity("r")


def service_identity_of(granted: str) -> SasIdentity:
    fields = {**_service_template.sas.fields, "sp": granted}
    return effective(Proof(parse(fields.items()), account, 0), None)


@pytest.mark.parametrize("service", ["b", "q", "t", "f"])
@pytest.mark.parametrize("ss", ["b", "q", "t", "f", "bq", "tf", "bqtf"])
def test_services_of_an_account_token(service: str, ss: str) -> None:
    identity = account_identity(ss=ss)
    expected = "ok" if service in ss else "AuthorizationServiceMismatch"
    for need in (needs.blob_read, needs.account_information, needs.batch):
        assert outcome(identity, need, ResourceName(service, "c", "b")) == expected


@pytest.mark.parametrize("need", [needs.policies, needs.policies_read])
def test_policies_are_for_keys_and_users(need: Need) -> None:
    for identity in (account_identity(), service_identity("racwdl")):
        assert outcome(identity, need) == "AuthorizationFailure"
    assert outcome(SharedKeyIdentity(account, 0), need) == "ok"
    assert outcome(BearerIdentity(Claims()), need) == "ok"


@pytest.mark.parametrize("need", [needs.account_information, needs.batch])
def test_some_operations_take_any_token(need: Need) -> None:
    for identity in (account_identity(sp="d", srt="s"), service_identity("d")):
        assert outcome(identity, need) == "ok"


def test_user_delegation_keys_are_for_users() -> None:
    need = needs.user_delegation_key
    assert outcome(BearerIdentity(Claims()), need) == "ok"
    for identity in (SharedKeyIdentity(account, 0), account_identity(), service_identity("r")):
        assert outcome(identity, need) == "AuthenticationFailed"


def test_keys_and_users_may_do_everything() -> None:
    for need, *_ in rows.values():
        for identity in (SharedKeyIdentity(account, 0), BearerIdentity(Claims())):
            assert authorize(identity, need, blob) == Grant()
    assert Grant().allows("t")


# Creating and overwriting --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("need", "granted", "may_overwrite"),
    [
        (needs.blob_create, "c", False),
        (needs.blob_create, "cr", False),
        (needs.blob_create, "cd", False),
        (needs.blob_create, "w", True),
        (needs.blob_create, "cw", True),
        (needs.file_create, "c", False),
        (needs.file_create, "rcw", True),
        (needs.blob_write, "wc", True),
        (needs.blob_read, "rc", True),
    ],
)
def test_creating_is_not_overwriting(need: Need, granted: str, may_overwrite: bool) -> None:
    for identity in (account_identity(sp=granted), service_identity(granted)):
        assert authorize(identity, need, blob).may_overwrite is may_overwrite


def test_a_grant_tells_the_other_letters() -> None:
    grant = authorize(service_identity("rwt"), needs.blob_write, blob)
    assert grant.allows("t")
    assert not grant.allows("i")


# What comes with a token ---------------------------------------------------------------------


def test_a_grant_has_what_the_token_says_for_its_service_only() -> None:
    fields = {**blob_fields, "rsct": "text/html", "ses": "scope", "spk": "a"}
    grant = authorize(verified(signed_token(fields, blob), blob), needs.blob_read, blob)
    assert grant.overrides.content_type == "text/html"
    assert grant.encryption_scope == "scope"
    assert grant.key_range is whole_table
    fields = {**table_fields, "rsct": "text/html", "ses": "scope", "spk": "a"}
    grant = authorize(verified(signed_token(fields, table), table), needs.entity_read, table)
    assert grant.overrides is no_overrides
    assert grant.encryption_scope == ""
    assert grant.key_range == KeyRange("a")
    fields = {**queue_fields, "ses": "scope"}
    grant = authorize(verified(signed_token(fields, queue), queue), needs.message_get, queue)
    assert grant.encryption_scope == ""


def test_a_delegation_key_is_for_one_service() -> None:
    fields = {
        **blob_fields,
        "skoid": "o",
        "sktid": "t",
        "skt": "2026-01-01",
        "ske": "2026-04-01",
        "sks": "q",
        "skv": "2021-12-02",
    }
    sas = parse({**fields, "sig": "x"}.items())
    assert sas.kind is SasKind.DELEGATION
    identity = effective(Proof(sas, account, 0), None)
    assert outcome(identity, needs.blob_read) == "AuthorizationServiceMismatch"
    assert outcome(identity, needs.message_peek, queue) == "ok"
    assert outcome(identity, needs.message_put, queue) == "AuthorizationPermissionMismatch"


# The secondary -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "need", [value for value in vars(needs).values() if isinstance(value, Need)]
)
def test_a_secondary_only_reads(need: Need) -> None:
    reads = {"r", "l", "t", "f"}
    name = ResourceName("b", "c", "b", secondary=True)
    expected = "ok" if need.secondary_ok else "InsufficientAccountPermissions"
    for identity in (SharedKeyIdentity(account, 0), BearerIdentity(Claims())):
        if outcome(identity, need) == "ok":
            assert outcome(identity, need, name) == expected
    if need.secondary_ok and need.any_of:
        assert set(need.any_of) <= reads
    if need.secondary_ok:
        assert not set(need.all_of)


# Nobody --------------------------------------------------------------------------------------

public = [needs.blob_read, needs.blobs_list, needs.container_read_public]


@pytest.mark.parametrize("level", PublicAccess)
def test_what_is_public(level: PublicAccess) -> None:
    for need in (value for value in vars(needs).values() if isinstance(value, Need)):
        allowed = (
            need in public
            and level is not PublicAccess.NONE
            and (level is PublicAccess.CONTAINER or need is needs.blob_read)
        )
        try:
            grant = authorize(anonymous, need, container, public_access=level)
        except Refused:
            assert not allowed
        else:
            assert allowed
            assert not grant.may_overwrite
            assert not grant.allows("t")


@pytest.mark.parametrize(
    ("version", "method", "service", "code"),
    [
        ("2019-12-12", "GET", "b", "NoAuthenticationInformation"),
        ("2026-10-06", "PUT", "b", "NoAuthenticationInformation"),
        ("2019-12-12", "GET", "q", "NoAuthenticationInformation"),
        ("2019-12-12", "GET", "t", "NoAuthenticationInformation"),
        ("2019-07-07", "GET", "b", "ResourceNotFound"),
        ("2019-07-07", "HEAD", "b", "ResourceNotFound"),
        ("", "GET", "b", "ResourceNotFound"),
        ("", "PUT", "b", "AuthenticationFailed"),
        ("2019-07-07", "DELETE", "b", "AuthenticationFailed"),
        ("2019-07-07", "GET", "q", "AuthenticationFailed"),
        ("", "GET", "t", "AuthenticationFailed"),
    ],
)
def test_how_nobody_is_refused(version: str, method: str, service: str, code: str) -> None:
    name = ResourceName(service, "c", "b")
    with pytest.raises(Refused) as caught:
        authorize(anonymous, needs.blob_write, name, version=version, method=method)
    assert caught.value.code == code
    challenge = caught.value.headers.get("WWW-Authenticate", "")
    assert challenge.startswith("Bearer authorization_uri=https://") is (version >= "2019-12-12")
    assert ("resource_id=https://storage.azure.com" in challenge) is (version >= "2019-12-12")
