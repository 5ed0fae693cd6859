"""azure-data-tables against the service: the flows of its documentation, and its edges."""

import uuid
from datetime import UTC, datetime, timedelta, timezone
from math import isnan

import pytest
from azure.core import MatchConditions
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceModifiedError,
    ResourceNotFoundError,
)
from azure.data.tables import (
    AccountSasPermissions,
    EdmType,
    EntityProperty,
    RequestTooLargeError,
    ResourceTypes,
    TableAccessPolicy,
    TableClient,
    TableCorsRule,
    TableErrorCode,
    TableSasPermissions,
    TableServiceClient,
    TableTransactionError,
    UpdateMode,
    generate_account_sas,
    generate_table_sas,
)

from .serving import account, key


@pytest.fixture
def service(serving):
    with TableServiceClient.from_connection_string(serving.connection_string) as made:
        yield made


@pytest.fixture
def people(service, table):
    return service.get_table_client(table)


def _entity(rk: str = "r", pk: str = "p", **values):
    return {"PartitionKey": pk, "RowKey": rk, **values}


# Tables ------------------------------------------------------------------------------------------


def test_tables(service, table):
    made = service.create_table("SdkMade")
    assert made.table_name == "SdkMade"
    with pytest.raises(ResourceExistsError) as refusal:
        service.create_table("sdkmade")
    assert refusal.value.error_code == TableErrorCode.TABLE_ALREADY_EXISTS
    assert service.create_table_if_not_exists("SdkMade").table_name == "SdkMade"
    assert {"SdkMade", table} <= {found.name for found in service.list_tables()}
    assert [found.name for found in service.query_tables("TableName eq 'SdkMade'")] == ["SdkMade"]
    pages = list(service.list_tables(results_per_page=1).by_page())
    assert [len(list(page)) for page in pages] == [1] * len(pages)
    service.delete_table("SdkMade")
    service.delete_table("SdkMade")  # the SDK takes a missing table for deleted
    with pytest.raises((ValueError, HttpResponseError)):
        service.create_table("a-b")


# Entities ----------------------------------------------------------------------------------------


def test_create_read_update_delete(people):
    made = people.create_entity(_entity(Age=5, Name="é'"))
    assert made["etag"]
    found = people.get_entity("p", "r")
    assert (found["Age"], found["Name"]) == (5, "é'")
    assert found.metadata["etag"] == made["etag"]
    assert found.metadata["timestamp"] is not None
    with pytest.raises(ResourceExistsError):
        people.create_entity(_entity())
    people.update_entity(_entity(City="x"), mode=UpdateMode.MERGE)
    assert people.get_entity("p", "r")["Age"] == 5
    people.update_entity(_entity(City="y"), mode=UpdateMode.REPLACE)
    assert "Age" not in people.get_entity("p", "r")
    people.upsert_entity(_entity(Age=6))
    people.upsert_entity(_entity(Age=7, rk="s"), mode=UpdateMode.REPLACE)
    people.delete_entity("p", "r")
    people.delete_entity("p", "r")  # the SDK takes a missing entity for deleted
    with pytest.raises(ResourceNotFoundError) as missing:
        people.get_entity("p", "r")
    assert missing.value.error_code == TableErrorCode.RESOURCE_NOT_FOUND


@pytest.mark.parametrize("mode", [UpdateMode.MERGE, UpdateMode.REPLACE])
def test_optimistic_concurrency(people, mode):
    etag = people.create_entity(_entity(n=1))["etag"]
    match = {"match_condition": MatchConditions.IfNotModified}
    changed = people.update_entity(_entity(n=2), mode=mode, etag=etag, **match)
    with pytest.raises(ResourceModifiedError) as refusal:
        people.update_entity(_entity(n=3), mode=mode, etag=etag, **match)
    assert refusal.value.error_code == TableErrorCode.UPDATE_CONDITION_NOT_SATISFIED
    with pytest.raises(ResourceModifiedError):
        people.delete_entity("p", "r", etag=etag, **match)
    people.update_entity(_entity(n=4), mode=mode, match_condition=MatchConditions.Unconditionally)
    assert people.get_entity("p", "r")["n"] == 4
    current = people.get_entity("p", "r").metadata["etag"]
    assert current != changed["etag"]
    people.delete_entity("p", "r", etag=current, **match)


_values = {
    "string": "é\U0001f600",
    "empty": "",
    "int32": -(2**31),
    "int64": EntityProperty(2**63 - 1, EdmType.INT64),
    "double": 1.5,
    "whole": 3.0,
    "infinite": float("inf"),
    "negative": float("-inf"),
    "boolean": True,
    "binary": bytes(range(256)),
    "guid": uuid.UUID("c9da6455-213d-42c9-9a79-3e9149a57833"),
    "moment": datetime(2021, 6, 17, 17, 32, 46, 777543, tzinfo=UTC),
    "offset": datetime(2021, 6, 17, 19, 32, 46, tzinfo=timezone(timedelta(hours=2))),
}


def test_types(people):
    people.create_entity(_entity(**_values, nan=float("nan")))
    found = people.get_entity("p", "r")
    assert isnan(found["nan"])
    for name, value in _values.items():
        got = found[name]
        assert got == value, name
    assert found["int64"] == EntityProperty(2**63 - 1, EdmType.INT64)
    assert type(found["whole"]) is float
    assert (found.metadata["timestamp"] - datetime.now(UTC)) < timedelta(minutes=5)


def test_a_moment_to_a_hundred_nanoseconds(people):
    people.create_entity(
        _entity(m=EntityProperty("2021-06-17T17:32:46.1234567Z", EdmType.DATETIME))
    )
    assert people.get_entity("p", "r")["m"].tables_service_value == "2021-06-17T17:32:46.1234567Z"


@pytest.mark.parametrize("key", ["", " ", "it's", "''", "a b", "é", "%", "+", "&=", "\U0001f600"])
def test_keys(people, key):
    people.create_entity(_entity(pk=key, rk=key, n=1))
    assert people.get_entity(key, key)["RowKey"] == key
    found = people.query_entities("PartitionKey eq @key", parameters={"key": key})
    assert [each["RowKey"] for each in found] == [key]
    people.update_entity(_entity(pk=key, rk=key, n=2))
    people.delete_entity(key, key)


# Queries -----------------------------------------------------------------------------------------


def test_queries(people):
    moment = datetime(2021, 6, 17, tzinfo=UTC)
    for n in range(10):
        people.create_entity(
            _entity(
                pk="a" if n < 5 else "b",
                rk=f"{n:02}",
                n=n,
                big=EntityProperty(2**40 + n, EdmType.INT64),
                ratio=n + 0.5,
                name=f"n'{n}",
                flag=n % 2 == 0,
                moment=moment + timedelta(days=n),
                guid=uuid.UUID(int=n),
                raw=bytes([n]),
            )
        )

    def found(text: str, **parameters) -> list[int]:
        return [each["n"] for each in people.query_entities(text, parameters=parameters)]

    assert [each["n"] for each in people.list_entities()] == list(range(10))
    assert found("PartitionKey eq @pk", pk="b") == [5, 6, 7, 8, 9]
    assert found("PartitionKey eq @pk and RowKey ge @rk", pk="a", rk="03") == [3, 4]
    assert found("n gt @n", n=7) == [8, 9]
    assert found("ratio lt @r", r=2.5) == [0, 1]
    assert found("big ge @b", b=2**40 + 8) == [8, 9]
    assert found("name eq @name", name="n'3") == [3]
    assert found("flag eq @flag and n lt @n", flag=False, n=4) == [1, 3]
    assert found("moment gt @m", m=moment + timedelta(days=7)) == [8, 9]
    assert found("guid eq @g", g=uuid.UUID(int=4)) == [4]
    assert found("raw eq @raw", raw=b"\x06") == [6]
    assert found("not (n gt 1)") == [0, 1]
    selected = next(iter(people.query_entities("n eq 3", select=["name", "n"])))
    assert dict(selected) == {"name": "n'3", "n": 3}


def test_paging(people):
    for n in range(7):
        people.create_entity(_entity(rk=f"{n}"))
    pages = people.list_entities(results_per_page=3).by_page()
    assert [len(list(page)) for page in pages] == [3, 3, 1]
    pages = people.list_entities(results_per_page=3).by_page()
    next(pages)
    rest = people.list_entities(results_per_page=3).by_page(pages.continuation_token)
    assert [each["RowKey"] for page in rest for each in page] == ["3", "4", "5", "6"]


def test_a_query_that_is_wrong(service, people):
    with pytest.raises(HttpResponseError) as refusal:
        list(people.query_entities("n eq"))
    assert refusal.value.status_code == 400
    with pytest.raises(ResourceNotFoundError) as missing:
        list(service.get_table_client("Nobody").list_entities())
    assert missing.value.error_code == TableErrorCode.TABLE_NOT_FOUND


# Entity group transactions -----------------------------------------------------------------------


def test_transactions(people):
    for rk in ("merged", "replaced", "deleted"):
        people.create_entity(_entity(rk, a=1))
    results = people.submit_transaction(
        [
            ("create", _entity("created", n=1)),
            ("upsert", _entity("upserted", n=1)),
            ("update", _entity("merged", n=1), {"mode": UpdateMode.MERGE}),
            ("update", _entity("replaced", n=1), {"mode": UpdateMode.REPLACE}),
            ("delete", _entity("deleted")),
        ]
    )
    assert len(results) == 5
    assert results[0]["etag"] == people.get_entity("p", "created").metadata["etag"]
    found = {each["RowKey"]: dict(each) for each in people.list_entities()}
    assert set(found) == {"created", "upserted", "merged", "replaced"}
    assert "a" in found["merged"]
    assert "a" not in found["replaced"]


def test_a_transaction_that_fails_says_which_operation_it_was(people):
    people.create_entity(_entity("old", n=1))
    operations = [("create", _entity("a")), ("create", _entity("old")), ("create", _entity("b"))]
    with pytest.raises(TableTransactionError) as refusal:
        people.submit_transaction(operations)
    assert refusal.value.index == 1
    assert refusal.value.status_code == 409
    assert refusal.value.error_code == TableErrorCode.ENTITY_ALREADY_EXISTS
    assert [each["RowKey"] for each in people.list_entities()] == ["old"]


def test_etags_inside_a_transaction(people):
    etag = people.create_entity(_entity("a", n=1))["etag"]
    people.update_entity(_entity("a", n=2))
    condition = {"etag": etag, "match_condition": MatchConditions.IfNotModified}
    with pytest.raises(TableTransactionError) as refusal:
        people.submit_transaction(
            [("create", _entity("b")), ("update", _entity("a", n=3), condition)]
        )
    assert (refusal.value.index, refusal.value.status_code) == (1, 412)
    assert people.get_entity("p", "a")["n"] == 2


def test_transactions_that_are_refused(people):
    with pytest.raises(TableTransactionError) as refusal:
        people.submit_transaction([("create", _entity(f"{n:03}")) for n in range(101)])
    assert refusal.value.status_code == 400
    assert refusal.value.index == 99
    with pytest.raises(TableTransactionError) as refusal:
        people.submit_transaction([("create", _entity("a")), ("upsert", _entity("a"))])
    assert refusal.value.error_code == TableErrorCode.INVALID_DUPLICATE_ROW
    large = {f"p{n}": "x" * 32768 for n in range(10)}
    with pytest.raises(RequestTooLargeError):
        people.submit_transaction([("create", _entity(f"{n}", **large)) for n in range(20)])
    results = people.submit_transaction([("create", _entity(f"{n:03}")) for n in range(100)])
    assert len(results) == 100


# Access ------------------------------------------------------------------------------------------


def test_access_policies(people):
    policy = TableAccessPolicy(
        start=datetime(2020, 1, 1, tzinfo=UTC),
        expiry=datetime(2035, 1, 1, tzinfo=UTC),
        permission="r",
    )
    people.create_entity(_entity(n=1))
    people.set_table_access_policy({"reader": policy, "empty": None})
    found = people.get_table_access_policy()
    assert found["reader"].permission == "r"
    assert found["reader"].expiry.year == 2035
    token = generate_table_sas(
        AzureNamedKeyCredential(account, key), people.table_name, policy_id="reader"
    )
    with _with_sas(people, token) as reader:
        assert reader.get_entity("p", "r")["n"] == 1
        with pytest.raises(HttpResponseError) as refusal:
            reader.create_entity(_entity("s"))
        assert refusal.value.status_code == 403
    people.set_table_access_policy({})
    with _with_sas(people, token) as reader, pytest.raises(ClientAuthenticationError):
        reader.get_entity("p", "r")
    six = {f"id{n}": policy for n in range(6)}
    with pytest.raises((ValueError, HttpResponseError)):
        people.set_table_access_policy(six)


def _with_sas(people, token: str) -> TableClient:
    return TableClient(
        endpoint=people.url,
        table_name=people.table_name,
        credential=AzureSasCredential(token),
    )


def _table_sas(people, permission: str, **bounds) -> TableClient:
    token = generate_table_sas(
        AzureNamedKeyCredential(account, key),
        people.table_name,
        permission=TableSasPermissions.from_string(permission),
        expiry=datetime.now(UTC) + timedelta(hours=1),
        **bounds,
    )
    return _with_sas(people, token)


def _status(call) -> int:
    try:
        call()
    except HttpResponseError as refusal:
        return refusal.status_code or 0
    return 200


@pytest.mark.parametrize("permission", ["r", "a", "u", "d", "au", "raud"])
def test_permissions_of_a_tables_signature(people, permission: str):
    people.create_entity(_entity("old", n=1))
    people.create_entity(_entity("gone", n=1))
    with _table_sas(people, permission) as holder:
        tried = {
            "r": lambda: holder.get_entity("p", "old"),
            "a": lambda: holder.create_entity(_entity("new")),
            "u": lambda: holder.update_entity(_entity("old", n=2)),
            "d": lambda: holder.delete_entity("p", "gone"),
            "au": lambda: holder.upsert_entity(_entity("old", n=3)),
        }
        for needed, call in tried.items():
            allowed = all(letter in permission for letter in needed)
            assert _status(call) == (200 if allowed else 403), needed
        batch = [("create", _entity("b1")), ("delete", _entity("old"))]
        allowed = "a" in permission and "d" in permission
        assert _status(lambda: holder.submit_transaction(batch)) == (200 if allowed else 403)


def test_a_range_of_keys_bounds_a_signature(people):
    for pk in "abc":
        for rk in "123":
            people.create_entity(_entity(rk, pk, n=1))
    with _table_sas(people, "raud", start_pk="a", start_rk="2", end_pk="b", end_rk="2") as holder:
        found = [(each["PartitionKey"], each["RowKey"]) for each in holder.list_entities()]
        assert found == [("a", "2"), ("a", "3"), ("b", "1"), ("b", "2")]
        assert [e["RowKey"] for e in holder.query_entities("PartitionKey eq 'c'")] == []
        assert holder.get_entity("b", "1")["n"] == 1
        for call in (
            lambda: holder.get_entity("a", "1"),
            lambda: holder.create_entity(_entity("9", "b")),
            lambda: holder.update_entity(_entity("3", "b")),
            lambda: holder.delete_entity("c", "1"),
            lambda: holder.submit_transaction(
                [("upsert", _entity("1", "b")), ("upsert", _entity("3", "b"))]
            ),
        ):
            with pytest.raises(HttpResponseError) as refusal:
                call()
            assert refusal.value.status_code == 403
            assert "AuthorizationFailure" in str(refusal.value)
        holder.submit_transaction([("upsert", _entity("1", "b", n=2))])
    assert people.get_entity("b", "1")["n"] == 2
    assert people.get_entity("c", "1")["n"] == 1


def test_a_signature_for_one_table_opens_no_other(service, people):
    other = service.create_table("OtherTable")
    try:
        with _table_sas(people, "raud") as holder:
            token = holder.credential.signature
        with TableClient(
            endpoint=people.url,
            table_name=other.table_name,
            credential=AzureSasCredential(token),
        ) as stranger:
            assert _status(lambda: stranger.create_entity(_entity())) == 403
            assert _status(lambda: stranger.submit_transaction([("create", _entity())])) == 403
        assert list(other.list_entities()) == []
    finally:
        service.delete_table("OtherTable")


def test_account_signatures(serving, people):
    people.create_entity(_entity(n=1))

    def client(types: ResourceTypes, permission: AccountSasPermissions) -> TableServiceClient:
        token = generate_account_sas(
            AzureNamedKeyCredential(account, key),
            types,
            permission,
            datetime.now(UTC) + timedelta(hours=1),
        )
        return TableServiceClient(endpoint=serving.url, credential=AzureSasCredential(token))

    readers = AccountSasPermissions(read=True, list=True)
    with client(ResourceTypes(object=True), readers) as reader:
        assert reader.get_table_client(people.table_name).get_entity("p", "r")["n"] == 1
        assert _status(lambda: list(reader.list_tables())) == 403
        assert _status(reader.get_service_properties) == 403
    with client(ResourceTypes(container=True, service=True), readers) as lister:
        assert people.table_name in {found.name for found in lister.list_tables()}
        assert lister.get_service_properties()
        assert _status(lambda: lister.create_table("Forbidden")) == 403


def test_a_wrong_key(serving):
    credential = AzureNamedKeyCredential(account, "d3Jvbmcga2V5IHdyb25nIGtleSB3cm9uZyBrZXk=")
    with (
        TableServiceClient(endpoint=serving.url, credential=credential) as service,
        pytest.raises(ClientAuthenticationError) as refusal,
    ):
        service.create_table("Forbidden")
    assert refusal.value.error_code == TableErrorCode.AUTHENTICATION_FAILED


def test_service_properties(service):
    rule = TableCorsRule(["http://a.example"], ["GET", "PUT"], max_age_in_seconds=9)
    service.set_service_properties(cors=[rule])
    found = service.get_service_properties()["cors"]
    assert [each.max_age_in_seconds for each in found] == [9]
    service.set_service_properties(cors=[])
    assert service.get_service_properties()["cors"] == []


def test_service_statistics(serving):
    credential = AzureNamedKeyCredential(account, key)
    # In path style the SDK makes no secondary address that is one; host and port stay the same.
    with TableServiceClient(
        endpoint=f"{serving.url}-secondary",
        credential=credential,
        secondary_hostname=f"127.0.0.1:{serving.port}",
    ) as service:
        assert service.get_service_stats()["geo_replication"]["status"] == "live"
