"""The table of 'Managing concurrency in Table storage', row by row, over a socket.

operation             returns ETag   requires If-Match   check
Query Entities        yes            no                  none
Insert Entity         yes            no                  fails if the entity exists
Update Entity         yes            yes                 yes
Merge Entity          yes            yes                 yes
Delete Entity         no             yes                 yes
Insert Or Replace     yes            no                  none
Insert Or Merge       yes            no                  none
"""

import pytest

from etagere.frontends.table_rest.routes import operations

from .serving import Client, Reply, entity_path

# What the documentation says, written down a second time: ETag returned, If-Match required.
_rows = {
    "QueryEntities": (True, False),
    "InsertEntity": (True, False),
    "UpdateEntity": (True, True),
    "MergeEntity": (True, True),
    "DeleteEntity": (False, True),
    "InsertOrReplaceEntity": (True, False),
    "InsertOrMergeEntity": (True, False),
}

_conditional = [
    ("PUT", {}),
    ("MERGE", {}),
    ("PATCH", {}),
    ("DELETE", {}),
    ("POST", {"X-HTTP-Method": "MERGE"}),
    ("POST", {"X-HTTP-Method": "PATCH"}),
    ("POST", {"X-HTTP-Method": "PUT"}),
    ("POST", {"X-HTTP-Method": "DELETE"}),
]
_upserts = [each for each in _conditional if "DELETE" not in (each[0], *each[1].values())]


def _stale() -> str:
    return "W/\"datetime'2020-01-01T00%3A00%3A00Z'\""


def _is_delete(method: str, more: dict[str, str]) -> bool:
    return "DELETE" in (method, more.get("X-HTTP-Method"))


def _change(
    client: Client, table: str, method: str, more: dict[str, str], if_match: str | None
) -> Reply:
    headers = dict(more) if if_match is None else {**more, "If-Match": if_match}
    body = None if _is_delete(method, more) else {"b": 2}
    return client.send(method, entity_path(table, "p", "r"), body=body, headers=headers)


def _values(client: Client, table: str) -> dict[str, object]:
    own = client.get(table, "p", "r").json
    return {name: value for name, value in own.items() if name in ("a", "b")}


def test_the_rows_say_what_the_documentation_says():
    rows = {row.name: row for row in operations.rows}
    for name, (returns_etag, _) in _rows.items():
        assert rows[name].returns_etag == returns_etag
        assert rows[name].changes_etag == (returns_etag and rows[name].writes)


def test_query_returns_etags_and_needs_none(client: Client, table: str):
    inserted = client.insert(table, "p", "r", a=1)
    (found,) = client.filtered(table, "a eq 1").json["value"]
    single = client.get(table, "p", "r")
    assert inserted.headers["etag"] == found["odata.etag"] == single.headers["etag"]
    assert single.json["odata.etag"] == single.headers["etag"]


def test_insert_returns_an_etag_and_fails_if_the_entity_exists(client: Client, table: str):
    first = client.insert(table, "p", "r", a=1)
    assert first.status == 201
    assert first.headers["etag"].startswith("W/\"datetime'")
    again = client.insert(table, "p", "r", a=2)
    assert (again.status, again.code) == (409, "EntityAlreadyExists")
    assert client.get(table, "p", "r").headers["etag"] == first.headers["etag"]


@pytest.mark.parametrize(("method", "more"), _conditional)
def test_the_current_etag_wins(client: Client, table: str, method: str, more: dict[str, str]):
    etag = client.insert(table, "p", "r", a=1).headers["etag"]
    changed = _change(client, table, method, more, etag)
    assert changed.status == 204
    if _is_delete(method, more):
        assert "etag" not in changed.headers
        assert client.get(table, "p", "r").status == 404
    else:
        assert changed.headers["etag"] > etag
        assert client.get(table, "p", "r").headers["etag"] == changed.headers["etag"]


@pytest.mark.parametrize(("method", "more"), _conditional)
def test_a_stale_etag_gets_412_and_changes_nothing(
    client: Client, table: str, method: str, more: dict[str, str]
):
    etag = client.insert(table, "p", "r", a=1).headers["etag"]
    refused = _change(client, table, method, more, _stale())
    assert (refused.status, refused.code) == (412, "UpdateConditionNotSatisfied")
    assert client.get(table, "p", "r").headers["etag"] == etag
    assert _values(client, table) == {"a": 1}


@pytest.mark.parametrize(("method", "more"), _conditional)
def test_any_etag_forces(client: Client, table: str, method: str, more: dict[str, str]):
    client.insert(table, "p", "r", a=1)
    assert _change(client, table, method, more, "*").status == 204


@pytest.mark.parametrize(("method", "more"), _conditional)
@pytest.mark.parametrize("if_match", ["*", _stale()])
def test_a_missing_entity_is_404_whatever_if_match_says(
    client: Client, table: str, method: str, more: dict[str, str], if_match: str
):
    refused = _change(client, table, method, more, if_match)
    assert (refused.status, refused.code) == (404, "ResourceNotFound")


@pytest.mark.parametrize(("method", "more"), _upserts)
@pytest.mark.parametrize("exists", [False, True])
def test_upserts_check_nothing(
    client: Client, table: str, method: str, more: dict[str, str], exists: bool
):
    if exists:
        client.insert(table, "p", "r", a=1)
    changed = _change(client, table, method, more, None)
    assert changed.status == 204
    assert client.get(table, "p", "r").headers["etag"] == changed.headers["etag"]
    replaces = "PUT" in (method, more.get("X-HTTP-Method"))
    assert _values(client, table) == ({"b": 2} if replaces or not exists else {"a": 1, "b": 2})


@pytest.mark.parametrize(("method", "more"), [each for each in _conditional if _is_delete(*each)])
def test_delete_needs_if_match(client: Client, table: str, method: str, more: dict[str, str]):
    client.insert(table, "p", "r", a=1)
    refused = _change(client, table, method, more, None)
    assert (refused.status, refused.code) == (400, "MissingRequiredHeader")
    assert client.get(table, "p", "r").status == 200


@pytest.mark.parametrize(("method", "more"), _conditional)
@pytest.mark.parametrize(
    "if_match",
    ["", "x", '"x"', "datetime'2020'", 'W/"a", W/"b"', "*, *",
     "\"datetime'2021-06-17T17%3A32%3A46.777543Z'\""],
)  # fmt: skip
def test_what_is_no_etag_is_refused(
    client: Client, table: str, method: str, more: dict[str, str], if_match: str
):
    client.insert(table, "p", "r", a=1)
    refused = _change(client, table, method, more, if_match)
    assert (refused.status, refused.code) == (400, "InvalidInput")
    assert _values(client, table) == {"a": 1}


@pytest.mark.parametrize(("method", "more"), _conditional)
def test_if_none_match_is_refused(client: Client, table: str, method: str, more: dict[str, str]):
    etag = client.insert(table, "p", "r", a=1).headers["etag"]
    for headers in ({"If-None-Match": "*"}, {"If-None-Match": etag, "If-Match": etag}):
        body = None if _is_delete(method, more) else {"b": 2}
        refused = client.send(
            method, entity_path(table, "p", "r"), body=body, headers={**more, **headers}
        )
        assert (refused.status, refused.code) == (400, "InvalidInput")


def test_spellings_of_an_etag(client: Client, table: str):
    etag = client.insert(table, "p", "r", a=1).headers["etag"]
    for old, new in (("%3A", "%3a"), ("%3A", ":"), ("W/", "w/")):
        changed = _change(client, table, "MERGE", {}, etag.replace(old, new))
        assert changed.status == 204
        etag = changed.headers["etag"]


@pytest.mark.parametrize("method", ["PUT", "MERGE"])
def test_versions_without_upserts_want_if_match(client: Client, table: str, method: str):
    client.version = "2009-09-19"
    body = {"a": 1}
    refused = client.send(method, entity_path(table, "p", "r"), body=body)
    assert refused.status == 400
    client.version = "2011-08-18"
    assert client.send(method, entity_path(table, "p", "r"), body=body).status == 204
