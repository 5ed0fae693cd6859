"""The seed's table of entity operations, on a strict store."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etagere.base.errors import Refused
from etagere.kv.engines.memory import MemoryEngine
from etagere.services.table.entities import Change, at_index, check_group, write_of
from etagere.services.table.entity import encode, read_members
from etagere.services.table.etag import etag_of, parse_if_match

from .conftest import SetClock, Tables


async def _refusal(awaitable) -> Refused:
    with pytest.raises(Refused) as refusal:
        await awaitable
    return refusal.value


def _match(stamp: int) -> str:
    return parse_if_match(etag_of(stamp))


async def test_insert_fails_if_the_entity_exists(store: Tables):
    first = await store.change("People", Change.INSERT, "p", "r", a=1)
    refused = await _refusal(store.change("People", Change.INSERT, "p", "r", a=2))
    assert refused.code == "EntityAlreadyExists"
    stored = await store.get("People", "p", "r")
    assert stored.stamp == first
    assert await store.values("People", "p", "r") == {"a": 1}


@pytest.mark.parametrize("change", [Change.REPLACE, Change.MERGE])
async def test_upserts_check_nothing(store: Tables, change: Change):
    first = await store.change("People", change, "p", "r", a=1)
    second = await store.change("People", change, "p", "r", b=2)
    assert second > first
    kept = {"b": 2} if change is Change.REPLACE else {"a": 1, "b": 2}
    assert await store.values("People", "p", "r") == kept
    assert (await store.get("People", "p", "r")).stamp == second


@pytest.mark.parametrize("change", [Change.REPLACE, Change.MERGE, Change.DELETE])
async def test_the_current_etag_gets_through_and_a_stale_one_does_not(
    store: Tables, change: Change
):
    old = await store.change("People", Change.INSERT, "p", "r", a=1)
    current = await store.change("People", Change.REPLACE, "p", "r", a=2)
    refused = await _refusal(store.change("People", change, "p", "r", _match(old), b=3))
    assert refused.code == "UpdateConditionNotSatisfied"
    assert await store.values("People", "p", "r") == {"a": 2}
    await store.change("People", change, "p", "r", _match(current), b=3)
    if change is Change.DELETE:
        refused = await _refusal(store.get("People", "p", "r"))
        assert refused.code == "ResourceNotFound"
    else:
        assert (await store.values("People", "p", "r"))["b"] == 3


@pytest.mark.parametrize("change", [Change.REPLACE, Change.MERGE, Change.DELETE])
@pytest.mark.parametrize("if_match", ["*", "datetime'2021-06-17T17:32:46.777543Z'"])
async def test_conditional_changes_need_the_entity(store: Tables, change: Change, if_match: str):
    refused = await _refusal(store.change("People", change, "p", "r", if_match))
    assert refused.code == "ResourceNotFound"


@pytest.mark.parametrize("change", [Change.REPLACE, Change.MERGE, Change.DELETE])
async def test_any_etag_forces(store: Tables, change: Change):
    await store.change("People", Change.INSERT, "p", "r", a=1)
    await store.change("People", change, "p", "r", "*")


async def test_replacing_drops_what_was_there(store: Tables):
    await store.change("People", Change.INSERT, "p", "r", a=1, b=2)
    await store.change("People", Change.REPLACE, "p", "r", "*", b=3)
    assert await store.values("People", "p", "r") == {"b": 3}


async def test_merging_changes_types_and_keeps_the_rest(store: Tables):
    await store.change("People", Change.INSERT, "p", "r", a=1, b=2)
    own = read_members([("a", "9"), ("a@odata.type", "Edm.Int64"), ("b", None)]).properties
    await store.write(
        "People", write_of(Change.MERGE, "p", "r", if_match="*", fragment=encode(own))
    )
    assert await store.values("People", "p", "r") == {
        "a@odata.type": "Edm.Int64",
        "a": "9",
        "b": 2,
    }


async def test_stamps_rise_even_while_the_clock_stands(store: Tables):
    stamps = [await store.change("People", Change.REPLACE, "p", "r") for _ in range(5)]
    assert stamps == sorted(set(stamps))


async def test_a_missing_table_is_said_so_by_every_operation(store: Tables):
    for change in Change:
        refused = await _refusal(store.change("Nobody", change, "p", "r", "*"))
        assert refused.code == "TableNotFound"
    assert (await _refusal(store.get("Nobody", "p", "r"))).code == "TableNotFound"
    assert (await _refusal(store.page("Nobody"))).code == "TableNotFound"
    refused = await _refusal(store.transact("Nobody", [write_of(Change.INSERT, "p", "r")]))
    assert (refused.code, refused.details["Index"]) == ("TableNotFound", "0")


async def test_a_merge_cannot_grow_past_the_limits(store: Tables):
    await store.change("People", Change.INSERT, "p", "r", **{f"p{n}": 1 for n in range(252)})
    refused = await _refusal(store.change("People", Change.MERGE, "p", "r", "*", q=1))
    assert refused.code == "TooManyProperties"
    for letter in "abcd":
        await store.change(
            "People", Change.MERGE, "p", "large", **{f"{letter}{n}": "x" * 32768 for n in range(3)}
        )
    refused = await _refusal(
        store.change(
            "People", Change.MERGE, "p", "large", **{f"z{n}": "x" * 32768 for n in range(5)}
        )
    )
    assert refused.code == "EntityTooLarge"


async def test_the_largest_entity_is_stored(store: Tables):
    """Control characters are six bytes each in JSON: the store's limits must leave them room."""
    own = {f"p{n:02}": "\x01" * 32768 for n in range(15)}
    await store.change("People", Change.INSERT, "p", "r", **own)
    assert await store.values("People", "p", "r") == own


async def test_the_longest_keys(store: Tables):
    pk, rk = "\uffff" * 512, "\U0001f600" * 256
    await store.change("People", Change.INSERT, pk, rk, a=1)
    stored = await store.get("People", pk, rk)
    assert (stored.partition_key, stored.row_key) == (pk, rk)
    (page,) = await store.pages("People")
    assert [(e.partition_key, e.row_key) for e in page] == [(pk, rk)]


@pytest.mark.parametrize(
    ("pk", "rk", "code"),
    [("a/b", "r", "OutOfRangeInput"), ("p", "\x7f", "OutOfRangeInput"),
     ("p", "x" * 513, "PropertyValueTooLarge")],
)  # fmt: skip
def test_keys_are_checked_before_anything_is_written(pk: str, rk: str, code: str):
    with pytest.raises(Refused) as refusal:
        write_of(Change.INSERT, pk, rk)
    assert refusal.value.code == code
    write_of(Change.DELETE, pk, rk, if_match="*")


# Entity group transactions -----------------------------------------------------------------------


async def test_a_batch_does_everything(store: Tables):
    await store.change("People", Change.INSERT, "p", "old", a=1)
    gone = await store.change("People", Change.INSERT, "p", "gone", a=1)
    stamps = await store.transact(
        "People",
        [
            write_of(Change.INSERT, "p", "new", fragment=encode({"n": 1})),
            write_of(Change.MERGE, "p", "old", if_match="*", fragment=encode({"n": 2})),
            write_of(Change.DELETE, "p", "gone", if_match=_match(gone)),
            write_of(Change.REPLACE, "p", "upsert", fragment=encode({"n": 3})),
        ],
    )
    assert stamps[2] == 0
    (page,) = await store.pages("People")
    assert [(e.row_key, e.stamp) for e in page] == [
        ("new", stamps[0]),
        ("old", stamps[1]),
        ("upsert", stamps[3]),
    ]


@pytest.mark.parametrize(
    ("failing", "code"),
    [
        (write_of(Change.INSERT, "p", "old"), "EntityAlreadyExists"),
        (write_of(Change.REPLACE, "p", "none", if_match="*"), "ResourceNotFound"),
        (write_of(Change.DELETE, "p", "none", if_match="*"), "ResourceNotFound"),
        (
            write_of(Change.MERGE, "p", "old", if_match="datetime'2000'"),
            "UpdateConditionNotSatisfied",
        ),
    ],
)
async def test_a_batch_that_fails_does_nothing_and_says_where(store: Tables, failing, code: str):
    await store.change("People", Change.INSERT, "p", "old", a=1)
    batch = [
        write_of(Change.INSERT, "p", "a"),
        write_of(Change.REPLACE, "p", "b"),
        failing,
        write_of(Change.INSERT, "p", "c"),
    ]
    refused = await _refusal(store.transact("People", batch))
    assert (refused.code, refused.details["Index"]) == (code, "2")
    (page,) = await store.pages("People")
    assert [e.row_key for e in page] == ["old"]


def _group_refusal(batch) -> tuple[str, str]:
    with pytest.raises(Refused) as refusal:
        check_group(batch)
    return refusal.value.code, refusal.value.details["Index"]


def test_what_is_no_group_is_refused_with_the_index():
    inserts = [write_of(Change.INSERT, "p", f"r{n}") for n in range(101)]
    check_group(inserts[:100])
    assert _group_refusal(inserts) == ("InvalidInput", "99")
    assert _group_refusal([inserts[0], inserts[1], inserts[0]]) == ("InvalidDuplicateRow", "2")
    other = write_of(Change.INSERT, "q", "r")
    assert _group_refusal([inserts[0], other]) == ("CommandsInBatchActOnDifferentPartitions", "1")


_some_writes = st.lists(
    st.tuples(
        st.sampled_from(list(Change)),
        st.sampled_from([f"r{n}" for n in range(12)]),
        st.sampled_from([None, "*", "current", "stale"]),
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda each: each[1],
)


@given(
    st.sets(st.integers(0, 11), max_size=12),
    _some_writes,
    st.booleans(),
)
@settings(max_examples=300, deadline=None)
async def test_a_batch_is_what_its_changes_are_one_after_the_other(
    there: set[int], changes: list[tuple[Change, str, str | None]], crowded: bool
):
    """However a batch looks for what is there; in a crowded partition it looks differently."""
    outcomes = []
    for together in (True, False):
        clock = SetClock()
        store = Tables(MemoryEngine(clock, strict=False), clock)
        await store.create("People")
        stamps = {f"r{n}": await store.change("People", Change.INSERT, "p", f"r{n}", a=n)
                  for n in sorted(there)}  # fmt: skip
        if crowded:
            for n in range(12):
                await store.change("People", Change.INSERT, "p", f"r{n}+", a=n)
        batch = []
        for change, row_key, condition in changes:
            if_match = condition
            if condition == "current":
                if_match = _match(stamps.get(row_key, 1))
            elif condition == "stale":
                if_match = _match(1)
            if change is Change.INSERT:
                if_match = None
            elif change is Change.DELETE and if_match is None:
                if_match = "*"
            own = encode({"b": len(batch)})
            batch.append(write_of(change, "p", row_key, if_match=if_match, fragment=own))
        try:
            if together:
                await store.transact("People", batch)
            else:
                for index, each in enumerate(batch):
                    try:
                        await store.write("People", each)
                    except Refused as refused:
                        raise at_index(refused, index) from None
        except Refused as refused:
            outcomes.append((refused.code, dict(refused.details)))
            continue
        (page,) = await store.pages("People")
        outcomes.append([(e.row_key, e.fragment) for e in page])
    assert outcomes[0] == outcomes[1]
