"""The checkers can fail: histories that were tampered with, and stores that break a promise."""

import copy

import pytest

from . import queue_client, table_client
from .appending import check_log
from .history import History, Outcome, Record
from .holding import check_leases, check_queue
from .linearizable import check_blob, check_partition
from .run import Size, check, drain_name, simulate
from .store import ForgetfulEngine, RacyEngine

Found = tuple[History, Record]


@pytest.fixture(scope="module")
def sound() -> History:
    """The first in which every kind of thing below has happened, whatever the server makes of a
    seed."""
    for seed in range(2, 12):
        outcome = simulate(seed, size=Size(steps=90))
        assert outcome.problems == []
        if acquired(outcome.history) is not None:
            return outcome.history
    raise AssertionError("no lease was acquired for a minute")


@pytest.fixture
def history(sound: History) -> History:
    return copy.deepcopy(sound)


def done(history: History, service: str, kind: str) -> list[Record]:
    return [
        record
        for record in history.records
        if (record.service, record.kind, record.outcome) == (service, kind, Outcome.DONE)
    ]


def without(history: History, record: Record) -> History:
    history.records.remove(record)
    return history


def followed(history: History, kinds: tuple[str, ...]) -> Record:
    """A write that the very next request of all, a read that began after it, saw."""
    for write in history.records:
        if write.kind not in kinds or write.outcome is not Outcome.DONE:
            continue
        for read in history.records:
            if read.kind == "get" and read.found.get("etag") == write.found.get("etag") is not None:
                return write
    raise AssertionError("no write was read")


# ---- blobs


def test_a_write_that_was_lost(history: History) -> None:
    """It was acknowledged and never seen by anybody: what was there before is read after it."""
    reads = [each for each in done(history, "blob", "get") if each.key == "plain0"]
    latest = reads[-1]
    write = copy.deepcopy(next(each for each in done(history, "blob", "put")))
    write.key, write.args, write.found = "plain0", {"content": "lost"}, {"etag": '"0xLOST"'}
    write.called = write.returned = latest.called
    latest.called += 1
    history.records.insert(history.records.index(latest), write)
    assert any("no order explains" in problem for problem in check(history))


def test_a_write_that_nobody_made(history: History) -> None:
    assert any(
        "no order explains" in each for each in check(without(history, followed(history, ("put",))))
    )


def test_a_read_of_an_older_version(history: History) -> None:
    reads = [each for each in done(history, "blob", "get") if each.key == "plain1"]
    early, late = reads[0], reads[-1]
    assert early.found["etag"] != late.found["etag"]
    late.found = dict(early.found)
    assert any("no order explains" in problem for problem in check(history))


def test_two_winners_with_one_etag(history: History) -> None:
    winner = next(
        each for each in done(history, "blob", "put") if each.args.get("if-match", "*") != "*"
    )
    second = copy.deepcopy(winner)
    second.args["content"], second.found["etag"] = "another", '"0xANOTHER"'
    history.records.insert(history.records.index(winner) + 1, second)
    assert any("no order explains" in problem for problem in check(history))


def test_parts_of_two_versions(history: History) -> None:
    done(history, "blob", "get")[0].found["content"] = None
    assert any("parts of two versions" in problem for problem in check(history))


def test_one_etag_for_two_versions(history: History) -> None:
    first, second, *_ = [each for each in done(history, "blob", "put") if each.key == "plain0"]
    second.found["etag"] = first.found["etag"]
    records = history.of("blob")["plain0"]
    assert any("is that of" in problem for problem in check_blob("plain0", records))


# ---- logs


def log_problems(history: History) -> list[str]:
    return [text for name, each in history.of("log").items() for text in check_log(name, each)]


def test_a_block_that_is_lost(history: History) -> None:
    appended = done(history, "log", "append")[0]
    for read in done(history, "log", "get"):
        read.found["marks"] = [m for m in read.found["marks"] if m != appended.args["mark"]]
    assert any("acknowledged, and not there" in each for each in log_problems(history))


def test_two_blocks_at_one_offset(history: History) -> None:
    first, second, *_ = [each for each in done(history, "log", "append") if each.key == "log0"]
    second.found["offset"] = first.found["offset"]
    assert any("not where it was said to be" in each for each in log_problems(history))


# ---- leases


def acquired(history: History) -> Record | None:
    """Acquired for a minute, and its blob used soon afterwards."""
    for record in done(history, "blob", "lease"):
        if record.args["action"] == "acquire" and record.args["seconds"] == 60:
            following = [r for r in history.of("blob")[record.key] if r.called > record.returned]
            if following and following[0].returned_at < record.called_at + 50_000_000:
                return record
    return None


def test_a_lease_that_two_hold(history: History) -> None:
    record = acquired(history)
    assert record is not None
    second = copy.deepcopy(record)
    second.found["lease"] = "11111111-1111-1111-1111-111111111111"
    second.args.pop("proposed", None)
    second.called = second.returned = record.returned
    second.called_at = second.returned_at = record.returned_at + 1
    records = history.of("blob")[record.key]
    records.insert(records.index(record) + 1, second)
    assert any("two leases at once" in problem for problem in check_leases(record.key, records))


def test_a_write_past_a_lease(history: History) -> None:
    record = acquired(history)
    assert record is not None
    write = copy.deepcopy(done(history, "blob", "put")[0])
    write.args.pop("x-ms-lease-id", None)
    write.called = write.returned = record.returned
    write.called_at = write.returned_at = record.returned_at + 1
    records = history.of("blob")[record.key]
    records.insert(records.index(record) + 1, write)
    assert any("without the lease" in problem for problem in check_leases(record.key, records))


# ---- messages


def queue_problems(history: History) -> list[str]:
    found = []
    for name in queue_client.queues:
        found += check_queue(name, history.of("queue")[name], drain_name)
    return found


def delivered(history: History) -> Record:
    """A delivery of one message that hides it for half a minute."""
    return next(
        record
        for record in done(history, "queue", "get")
        if record.client != drain_name and record.found["messages"] and record.args["hidden"] == 30
    )


def test_a_message_that_two_have(history: History) -> None:
    record = delivered(history)
    second = copy.deepcopy(record)
    second.client = "somebody else"
    history.records.insert(history.records.index(record) + 1, second)
    assert any("one delivery went to two" in problem for problem in queue_problems(history))


def test_a_message_that_is_handed_out_while_it_is_hidden(history: History) -> None:
    record = delivered(history)
    second = copy.deepcopy(record)
    for message in second.found["messages"]:
        message["count"] += 1
        message["receipt"] += "x"
    second.called = second.returned = record.returned
    second.called_at = second.returned_at = record.returned_at + 1
    history.records.insert(history.records.index(record) + 1, second)
    assert any("while it was hidden" in problem for problem in queue_problems(history))


def test_a_receipt_that_is_given_twice(history: History) -> None:
    update = done(history, "queue", "update")[0]
    update.found["receipt"] = update.args["receipt"]
    assert any("given twice" in problem for problem in queue_problems(history))


def test_a_receipt_that_is_good_after_an_update(history: History) -> None:
    update = done(history, "queue", "update")[0]
    again = copy.deepcopy(update)
    again.called, again.returned = update.returned + 1, update.returned + 2
    again.found["receipt"] += "x"
    history.records.insert(history.records.index(update) + 1, again)
    assert any("an old receipt was good" in problem for problem in queue_problems(history))


def test_a_message_that_is_gone(history: History) -> None:
    drains = [each for each in done(history, "queue", "get") if each.client == drain_name]
    known = {put.found["id"] for put in done(history, "queue", "put")}
    drain = next(each for each in drains if any(m["id"] in known for m in each.found["messages"]))
    drain.found["messages"] = [m for m in drain.found["messages"] if m["id"] not in known]
    assert any("lost" in problem for problem in queue_problems(history))


def test_a_deleted_message_that_comes_back(history: History) -> None:
    deleted = done(history, "queue", "delete")[0]
    drain = next(
        each
        for each in done(history, "queue", "get")
        if each.client == drain_name and each.key == deleted.key
    )
    message = {"id": deleted.args["id"], "receipt": "x", "count": 9, "text": "y"}
    drain.found["messages"].append(message)
    assert any("after it was deleted" in problem for problem in queue_problems(history))


# ---- tables


def table_problems(history: History) -> list[str]:
    found = []
    for name in table_client.partitions:
        found += check_partition(name, history.of("table")[name], table_client.rows)
    return found


def change_set_and_query(found: dict[str, list[str]], returned: int = 4) -> list[str]:
    """What the checker says of a change set of two inserts, and of what a query found."""
    changes = [{"change": "insert", "row": row, "mark": f"m{row}"} for row in ("r0", "r1")]
    batch = Record(0, "t0", "table", "p0", "change", {"changes": changes}, 1, 1, 2, 2)
    batch.outcome, batch.found = Outcome.DONE, {"etags": ["e0", "e1"]}
    query = Record(1, "t1", "table", "p0", "query", {}, 3, 3, returned, 4)
    query.outcome, query.found = Outcome.DONE, {"rows": found}
    return check_partition("p0", [batch, query], table_client.rows)


def test_half_a_change_set() -> None:
    first, second = ["mr0", "", "e0"], ["mr1", "", "e1"]
    assert change_set_and_query({"r0": first, "r1": second}) == []
    for found in ({"r0": first}, {"r1": second}, {}):
        assert any("no order explains" in each for each in change_set_and_query(found))


def test_an_update_that_is_lost(history: History) -> None:
    updates = [
        record
        for record in done(history, "table", "change")
        if record.args["changes"][0]["change"] in ("replace", "merge")
    ]
    caught = 0
    updates = updates[:30]
    for record in updates:
        tampered = History()
        tampered.records = [each for each in history.records if each.number != record.number]
        caught += bool(table_problems(tampered))
    assert caught > len(updates) / 2  # some were overwritten before anybody looked


# ---- stores that break a promise


def test_a_store_that_checks_and_then_acts_is_caught() -> None:
    found = [each for seed in range(3) for each in simulate(seed, RacyEngine).problems]
    assert any("no order explains" in each for each in found)


def test_a_store_that_loses_a_commit_is_caught() -> None:
    complaints = []
    for seed in range(3):
        found = simulate(seed, ForgetfulEngine).problems
        assert found, f"seed {seed} saw nothing"
        complaints += found
    assert any("no order explains" in each for each in complaints)
    assert any("lost:" in each for each in complaints)
