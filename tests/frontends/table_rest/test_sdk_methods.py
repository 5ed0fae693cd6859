"""Every public method of azure-data-tables' clients, synchronous and not, does what it says."""

import base64
import inspect
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from types import ModuleType
from typing import Any, Self

import azure.data.tables
import azure.data.tables.aio
import pytest
from azure.core import MatchConditions
from azure.core.credentials import AccessToken, AzureNamedKeyCredential
from azure.core.exceptions import (
    HttpResponseError,
    ResourceExistsError,
    ResourceModifiedError,
    ResourceNotFoundError,
)
from azure.data.tables import (
    TableAccessPolicy,
    TableAnalyticsLogging,
    TableCorsRule,
    TableMetrics,
    TableRetentionPolicy,
    UpdateMode,
)

from etagere.testing import ServerProcess

from .serving import Serving, account, key

_numbers = itertools.count()
_sdks = {"sync": azure.data.tables, "aio": azure.data.tables.aio}


@dataclass
class Flavour:
    """The clients of one SDK, and a table of the test's own."""

    sdk: ModuleType
    serving: Serving
    service: Any
    table: Any

    @property
    def credential(self) -> AzureNamedKeyCredential:
        return AzureNamedKeyCredential(account, key)

    @property
    def name(self) -> str:
        return self.table.table_name


Scenario = Callable[[Flavour], Awaitable[None]]
_scenarios: dict[str, Scenario] = {}


def does(*methods: str) -> Callable[[Scenario], Scenario]:
    def add(scenario: Scenario) -> Scenario:
        for method in methods:
            assert method not in _scenarios
            _scenarios[method] = scenario
        return scenario

    return add


async def done(result: Any) -> Any:
    return await result if inspect.isawaitable(result) else result


async def listed(found: Any) -> list[Any]:
    if hasattr(found, "__aiter__"):
        return [each async for each in found]
    return list(found)


def _entity(rk: str = "r", **values: object) -> dict[str, object]:
    return {"PartitionKey": "p", "RowKey": rk, **values}


@pytest.fixture(params=_sdks)
async def flavour(request, serving: Serving) -> AsyncIterator[Flavour]:
    sdk = _sdks[request.param]
    service = sdk.TableServiceClient.from_connection_string(serving.connection_string)
    table = service.get_table_client(f"Methods{next(_numbers)}")
    await done(table.create_table())
    yield Flavour(sdk, serving, service, table)
    await done(table.close())
    await done(service.close())


def _public(kind: type) -> set[str]:
    return {f"{kind.__name__}.{name}" for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize("sdk", _sdks)
@pytest.mark.parametrize("name", ["TableClient", "TableServiceClient"])
def test_no_method_is_left_out(sdk: str, name: str):
    mine = {method for method in _scenarios if method.startswith(f"{name}.")}
    assert _public(getattr(_sdks[sdk], name)) == mine


@pytest.mark.parametrize("method", _scenarios)
async def test_method(flavour: Flavour, method: str):
    await _scenarios[method](flavour)


# The service -------------------------------------------------------------------------------------


@does("TableServiceClient.create_table", "TableServiceClient.delete_table")
async def _tables(x: Flavour) -> None:
    name = x.name + "More"
    made = await done(x.service.create_table(name))
    assert made.table_name == name
    with pytest.raises(ResourceExistsError):
        await done(x.service.create_table(name.upper()))
    await done(x.service.delete_table(name))
    await done(x.service.delete_table(name))
    assert name not in {each.name for each in await listed(x.service.list_tables())}


@does("TableServiceClient.create_table_if_not_exists")
async def _if_not_exists(x: Flavour) -> None:
    await done(x.table.create_entity(_entity(n=1)))
    again = await done(x.service.create_table_if_not_exists(x.name))
    assert (await done(again.get_entity("p", "r")))["n"] == 1
    made = await done(x.service.create_table_if_not_exists(x.name + "New"))
    assert await listed(made.list_entities()) == []


@does("TableServiceClient.list_tables", "TableServiceClient.query_tables")
async def _listing(x: Flavour) -> None:
    names = [each.name for each in await listed(x.service.list_tables(results_per_page=2))]
    assert x.name in names
    assert names == sorted(names, key=str.lower)
    found = x.service.query_tables("TableName eq @name", parameters={"name": x.name})
    assert [each.name for each in await listed(found)] == [x.name]
    assert await listed(x.service.query_tables("TableName eq 'Nobody'")) == []


@does("TableServiceClient.get_service_properties", "TableServiceClient.set_service_properties")
async def _properties(x: Flavour) -> None:
    week = TableRetentionPolicy(enabled=True, days=7)
    rule = TableCorsRule(["http://a.example"], ["GET", "MERGE"], max_age_in_seconds=9)
    await done(
        x.service.set_service_properties(
            analytics_logging=TableAnalyticsLogging(
                read=True, write=True, delete=True, retention_policy=week
            ),
            hour_metrics=TableMetrics(enabled=True, include_apis=True, retention_policy=week),
            minute_metrics=TableMetrics(enabled=False),
            cors=[rule],
        )
    )
    found = await done(x.service.get_service_properties())
    assert found["analytics_logging"].read
    assert found["analytics_logging"].retention_policy.days == 7
    assert found["hour_metrics"].include_apis
    assert not found["minute_metrics"].enabled
    assert [each.allowed_methods for each in found["cors"]] == [["GET", "MERGE"]]
    await done(x.service.set_service_properties(cors=[]))
    assert (await done(x.service.get_service_properties()))["hour_metrics"].enabled
    off = TableRetentionPolicy(enabled=False)
    await done(
        x.service.set_service_properties(
            analytics_logging=TableAnalyticsLogging(
                read=False, write=False, delete=False, retention_policy=off
            ),
            hour_metrics=TableMetrics(enabled=False),
        )
    )


@does("TableServiceClient.get_service_stats")
async def _statistics(x: Flavour) -> None:
    with pytest.raises(HttpResponseError):
        await done(x.service.get_service_stats())  # by path, the SDK asks the primary
    secondary = x.sdk.TableServiceClient(
        f"{x.serving.url}-secondary",
        credential=x.credential,
        secondary_hostname=f"127.0.0.1:{x.serving.port}",
    )
    found = await done(secondary.get_service_stats())
    assert found["geo_replication"]["status"] == "live"
    await done(secondary.close())


@does(
    "TableServiceClient.from_connection_string",
    "TableServiceClient.get_table_client",
    "TableServiceClient.close",
    "TableServiceClient.url",
    "TableServiceClient.api_version",
)
async def _service_clients(x: Flavour) -> None:
    service = x.sdk.TableServiceClient.from_connection_string(x.serving.connection_string)
    assert service.url.rstrip("/") == x.serving.url
    assert service.api_version
    await done(service.get_table_client(x.name).create_entity(_entity()))
    assert len(await listed(x.table.list_entities())) == 1
    await done(service.close())


# A table -----------------------------------------------------------------------------------------


@does("TableClient.create_table", "TableClient.delete_table")
async def _table(x: Flavour) -> None:
    with pytest.raises(ResourceExistsError):
        await done(x.table.create_table())
    await done(x.table.delete_table())
    with pytest.raises(ResourceNotFoundError):
        await listed(x.table.list_entities())
    assert (await done(x.table.create_table())).name == x.name
    assert await listed(x.table.list_entities()) == []


@does("TableClient.create_entity", "TableClient.get_entity")
async def _create(x: Flavour) -> None:
    made = await done(x.table.create_entity(_entity(n=1, text="é")))
    found = await done(x.table.get_entity("p", "r"))
    assert (found["n"], found["text"], found.metadata["etag"]) == (1, "é", made["etag"])
    assert dict(await done(x.table.get_entity("p", "r", select=["n"]))) == {"n": 1}
    with pytest.raises(ResourceExistsError):
        await done(x.table.create_entity(_entity(n=2)))
    with pytest.raises(ResourceNotFoundError):
        await done(x.table.get_entity("p", "none"))


@does("TableClient.update_entity")
async def _update(x: Flavour) -> None:
    with pytest.raises(ResourceNotFoundError):
        await done(x.table.update_entity(_entity(n=1)))
    old = (await done(x.table.create_entity(_entity(a=1))))["etag"]
    condition = {"etag": old, "match_condition": MatchConditions.IfNotModified}
    await done(x.table.update_entity(_entity(b=2), mode=UpdateMode.MERGE, **condition))
    assert dict(await done(x.table.get_entity("p", "r"))) == _entity(a=1, b=2)
    with pytest.raises(ResourceModifiedError):
        await done(x.table.update_entity(_entity(c=3), mode=UpdateMode.REPLACE, **condition))
    await done(x.table.update_entity(_entity(c=3), mode=UpdateMode.REPLACE))
    assert dict(await done(x.table.get_entity("p", "r"))) == _entity(c=3)


@does("TableClient.upsert_entity")
async def _upsert(x: Flavour) -> None:
    for mode, expected in ((UpdateMode.MERGE, {"a": 1}), (UpdateMode.REPLACE, {})):
        await done(x.table.upsert_entity(_entity(a=1), mode=UpdateMode.REPLACE))
        changed = await done(x.table.upsert_entity(_entity(b=2), mode=mode))
        found = await done(x.table.get_entity("p", "r"))
        assert dict(found) == _entity(**expected, b=2)
        assert found.metadata["etag"] == changed["etag"]


@does("TableClient.delete_entity")
async def _delete(x: Flavour) -> None:
    old = (await done(x.table.create_entity(_entity(n=1))))["etag"]
    await done(x.table.upsert_entity(_entity(n=2)))
    condition = {"etag": old, "match_condition": MatchConditions.IfNotModified}
    with pytest.raises(ResourceModifiedError):
        await done(x.table.delete_entity("p", "r", **condition))
    await done(x.table.delete_entity(await done(x.table.get_entity("p", "r"))))
    assert await listed(x.table.list_entities()) == []


@does("TableClient.list_entities", "TableClient.query_entities")
async def _queries(x: Flavour) -> None:
    for n in range(5):
        await done(x.table.create_entity(_entity(f"{n}", n=n, even=n % 2 == 0)))
    found = await listed(x.table.list_entities(results_per_page=2, select=["n"]))
    assert [dict(each) for each in found] == [{"n": n} for n in range(5)]
    text = "PartitionKey eq @pk and n gt @n and even eq true"
    found = await listed(
        x.table.query_entities(text, parameters={"pk": "p", "n": 1}, results_per_page=1)
    )
    assert [each["n"] for each in found] == [2, 4]


@does("TableClient.submit_transaction")
async def _transaction(x: Flavour) -> None:
    await done(x.table.create_entity(_entity("gone")))
    results = await done(
        x.table.submit_transaction(
            [
                ("create", _entity("made", n=1)),
                ("upsert", _entity("upserted", n=2), {"mode": UpdateMode.REPLACE}),
                ("delete", _entity("gone")),
            ]
        )
    )
    assert len(results) == 3
    found = {each["RowKey"]: each for each in await listed(x.table.list_entities())}
    assert set(found) == {"made", "upserted"}
    assert found["made"].metadata["etag"] == results[0]["etag"]
    with pytest.raises(azure.data.tables.TableTransactionError) as refusal:
        await done(
            x.table.submit_transaction(
                [("upsert", _entity("new")), ("update", _entity("none")), ("delete", _entity("x"))]
            )
        )
    assert (refusal.value.index, refusal.value.status_code) == (1, 404)
    assert len(await listed(x.table.list_entities())) == 2


@does("TableClient.get_table_access_policy", "TableClient.set_table_access_policy")
async def _policies(x: Flavour) -> None:
    policy = TableAccessPolicy(
        permission="ra",
        start=datetime(2020, 1, 1, tzinfo=UTC),
        expiry=datetime(2035, 1, 1, 12, 30, tzinfo=UTC),
    )
    await done(x.table.set_table_access_policy({"some": policy, "none": None}))
    found = await done(x.table.get_table_access_policy())
    assert set(found) == {"some", "none"}
    assert (found["some"].permission, found["some"].expiry) == ("ra", policy.expiry)
    await done(x.table.set_table_access_policy({}))
    assert await done(x.table.get_table_access_policy()) == {}


@does(
    "TableClient.from_connection_string",
    "TableClient.from_table_url",
    "TableClient.close",
    "TableClient.url",
    "TableClient.api_version",
)
async def _table_clients(x: Flavour) -> None:
    kind = x.sdk.TableClient
    clients = [
        kind.from_connection_string(x.serving.connection_string, x.name),
        kind.from_table_url(f"{x.serving.url}/{x.name}", credential=x.credential),
        kind(endpoint=x.serving.url, table_name=x.name, credential=x.credential),
    ]
    for number, client in enumerate(clients):
        assert client.url.startswith(x.serving.url)
        assert client.api_version
        await done(client.create_entity(_entity(f"{number}")))
        await done(client.close())
    assert len(await listed(x.table.list_entities())) == len(clients)


# Bearer tokens, which are taken over HTTPS only ---------------------------------------------------


def _token() -> str:
    now = int(time.time())
    parts = (
        {"alg": "RS256", "typ": "JWT", "kid": "k"},
        {
            "iss": "https://sts.windows.net/some-tenant/",
            "aud": "https://storage.azure.com",
            "iat": now - 60,
            "nbf": now - 60,
            "exp": now + 600,
            "oid": "somebody",
        },
    )
    raw = [json.dumps(part).encode() for part in parts] + [os.urandom(32)]
    return ".".join(base64.urlsafe_b64encode(each).decode().rstrip("=") for each in raw)


class _Credential:
    def get_token(self, *_: object, **__: object) -> AccessToken:
        return AccessToken(_token(), int(time.time()) + 600)


class _AioCredential:
    async def get_token(self, *_: object, **__: object) -> AccessToken:
        return _Credential().get_token()

    async def close(self) -> None:
        return

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return


@pytest.fixture(scope="module")
def secure(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    command = [sys.executable, "-m", "etagere", "cert", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    pair = [f"--tls-cert={folder}/localhost.pem", f"--tls-key={folder}/localhost-key.pem"]
    with ServerProcess(["--in-memory", "--services=table", *pair]) as server:
        yield server.urls["table"], str(folder / "authority.pem")


@pytest.mark.parametrize("sdk", _sdks)
async def test_bearer_tokens(secure: tuple[str, str], sdk: str):
    url, authority = secure
    credential = _Credential() if sdk == "sync" else _AioCredential()
    service = _sdks[sdk].TableServiceClient(
        url, credential=credential, connection_verify=authority, retry_total=0
    )
    table = await done(service.create_table(f"Bearer{sdk}"))
    await done(table.submit_transaction([("create", _entity(f"{n}", n=n)) for n in range(3)]))
    await done(table.upsert_entity(_entity("0", n=5)))
    assert [each["n"] for each in await listed(table.list_entities())] == [5, 1, 2]
    await done(service.close())
