"""azure-data-tables' asynchronous client: its own way of paging, batching and signing."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from azure.core import MatchConditions
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import ResourceExistsError, ResourceModifiedError, ResourceNotFoundError
from azure.data.tables import (
    TableSasPermissions,
    TableTransactionError,
    UpdateMode,
    generate_table_sas,
)
from azure.data.tables.aio import TableClient, TableServiceClient

from .serving import account, key


@pytest.fixture
async def people(serving, table):
    async with TableServiceClient.from_connection_string(serving.connection_string) as service:
        yield service.get_table_client(table)


def _entity(rk: str = "r", pk: str = "p", **values):
    return {"PartitionKey": pk, "RowKey": rk, **values}


async def test_tables(serving):
    async with TableServiceClient.from_connection_string(serving.connection_string) as service:
        await service.create_table("AioMade")
        with pytest.raises(ResourceExistsError):
            await service.create_table("AioMade")
        assert "AioMade" in [found.name async for found in service.list_tables()]
        found = [each.name async for each in service.query_tables("TableName eq 'AioMade'")]
        assert found == ["AioMade"]
        await service.delete_table("AioMade")


async def test_entities(people):
    made = await people.create_entity(_entity(n=1, name="é'"))
    found = await people.get_entity("p", "r")
    assert (found["n"], found["name"]) == (1, "é'")
    condition = {"etag": made["etag"], "match_condition": MatchConditions.IfNotModified}
    await people.update_entity(_entity(n=2), mode=UpdateMode.MERGE, **condition)
    with pytest.raises(ResourceModifiedError):
        await people.update_entity(_entity(n=3), mode=UpdateMode.REPLACE, **condition)
    await people.upsert_entity(_entity(n=4))
    await people.delete_entity("p", "r")
    with pytest.raises(ResourceNotFoundError):
        await people.get_entity("p", "r")


@pytest.mark.parametrize("key", ["it's", "a b", "é", "%", "+", "&=", "\U0001f600"])
async def test_keys(people, key: str):
    await people.create_entity(_entity(pk=key, rk=key))
    assert (await people.get_entity(key, key))["RowKey"] == key
    query = people.query_entities("PartitionKey eq @key", parameters={"key": key})
    assert [each["RowKey"] async for each in query] == [key]
    await people.delete_entity(key, key)


async def test_paging(people):
    await people.submit_transaction([("create", _entity(f"{n}")) for n in range(7)])
    pages = people.list_entities(results_per_page=3).by_page()
    assert [len([each async for each in page]) async for page in pages] == [3, 3, 1]


async def test_transactions(people):
    await people.create_entity(_entity("old"))
    with pytest.raises(TableTransactionError) as refusal:
        await people.submit_transaction(
            [("create", _entity("a")), ("create", _entity("b")), ("create", _entity("old"))]
        )
    assert (refusal.value.index, refusal.value.status_code) == (2, 409)
    assert [each["RowKey"] async for each in people.list_entities()] == ["old"]


async def test_counters_in_an_optimistic_loop_lose_no_update(people):
    await people.create_entity(_entity("counter", n=0))
    workers, rounds = 6, 5

    async def count() -> int:
        conflicts = 0
        for _ in range(rounds):
            while True:
                found = await people.get_entity("p", "counter")
                found["n"] += 1
                try:
                    await people.update_entity(
                        found,
                        mode=UpdateMode.REPLACE,
                        etag=found.metadata["etag"],
                        match_condition=MatchConditions.IfNotModified,
                    )
                    break
                except ResourceModifiedError:
                    conflicts += 1
        return conflicts

    await asyncio.gather(*(count() for _ in range(workers)))
    assert (await people.get_entity("p", "counter"))["n"] == workers * rounds


async def test_signatures(serving, people):
    token = generate_table_sas(
        AzureNamedKeyCredential(account, key),
        people.table_name,
        permission=TableSasPermissions(read=True, add=True),
        expiry=datetime.now(UTC) + timedelta(hours=1),
    )
    async with TableClient(
        endpoint=serving.url,
        table_name=people.table_name,
        credential=AzureSasCredential(token),
    ) as holder:
        await holder.submit_transaction([("create", _entity("a b'"))])
        assert [each["RowKey"] async for each in holder.list_entities()] == ["a b'"]
