"""Who certainly had what, and when: leases held by one, messages hidden from all others.

A client knows a moment before and a moment after each effect.  What is concluded here holds
wherever between the two the effect was; time is the server's own, so nothing is allowed for clocks.
"""

from collections import Counter
from dataclasses import dataclass
from itertools import combinations, pairwise

from etagere.base.clock import seconds, timestamp_never

from .history import Outcome, Record

# ---- leases


@dataclass(slots=True)
class Hold:
    """A time in which a lease was certainly in force."""

    lease: str
    begin: int
    end: int
    by: Record


def check_leases(name: str, records: list[Record]) -> list[str]:
    holds = [hold for hold in _holds(records) if hold.begin < hold.end]
    problems = [
        f"{name}: two leases at once:\n    {one}\n    {other}"
        for one, other in combinations(holds, 2)
        if one.lease != other.lease and max(one.begin, other.begin) < min(one.end, other.end)
    ]
    for record in records:
        if record.outcome is not Outcome.DONE or record.kind in ("get", "lease"):
            continue
        problems += [
            f"{name}: written without the lease in force:\n    {hold}\n    {record}"
            for hold in holds
            if hold.begin < record.called_at
            and record.returned_at < hold.end
            and record.args.get("x-ms-lease-id") != hold.lease
        ]
    return problems


def _holds(records: list[Record]) -> list[Hold]:
    found: list[Hold] = []
    seconds_of: dict[str, int] = {}
    for record in records:
        if record.kind != "lease" or record.outcome is not Outcome.DONE:
            continue
        action = record.args["action"]
        if action == "acquire":
            seconds_of[record.found["lease"]] = record.args["seconds"]
        if action in ("acquire", "renew"):
            lease = record.found["lease"]
            duration = seconds_of.get(lease)
            if duration is None:
                continue  # a changed id: its duration is another's business
            ends = timestamp_never if duration < 0 else record.called_at + seconds(duration)
            found.append(_cut(Hold(lease, record.returned_at, ends, record), records))
    return found


def _cut(hold: Hold, records: list[Record]) -> Hold:
    """End a hold where anything was asked for that may have ended it."""
    for record in records:
        if record is hold.by or record.outcome is Outcome.REFUSED:
            continue
        if record.returned > hold.by.called and _may_end(record, hold.lease):
            hold.end = min(hold.end, record.called_at)
    return hold


def _may_end(record: Record, lease: str) -> bool:
    if record.kind == "delete":
        return True
    if record.kind != "lease":
        return False
    sent = record.args.get("x-ms-lease-id")
    match record.args["action"]:
        case "break":
            return True
        case "release" | "change":
            return sent == lease
        case "acquire":
            # The same id again is no other holder, but may shorten the time.
            return lease in (record.args.get("proposed"), record.found.get("lease"))
        case _:
            return False


# ---- messages


@dataclass(slots=True)
class Delivery:
    message: str
    receipt: str
    count: int
    text: str
    by: Record


def check_queue(name: str, records: list[Record], drained_by: str) -> list[str]:
    deliveries: dict[str, list[Delivery]] = {}
    for record in records:
        if record.kind == "get" and record.outcome is Outcome.DONE:
            for each in record.found["messages"]:
                delivery = Delivery(
                    each["id"], each["receipt"], each["count"], each["text"], record
                )
                deliveries.setdefault(delivery.message, []).append(delivery)
    changes: dict[str, list[Record]] = {}
    for record in records:
        if record.kind in ("update", "delete"):
            changes.setdefault(record.args["id"], []).append(record)
    puts = [record for record in records if record.kind == "put"]
    known = {record.found["id"]: record for record in puts if record.outcome is Outcome.DONE}
    problems = _lost(known, deliveries, changes, drained_by)
    possible = {record.args["text"] for record in puts if record.outcome is not Outcome.REFUSED}
    for message, handed in deliveries.items():
        handed.sort(key=lambda delivery: delivery.count)
        problems += _check_message(known.get(message), handed, changes.get(message, []), possible)
    problems += _peeked_while_hidden(records, deliveries, changes)
    problems += _given_twice(records, deliveries)
    return [f"{name}: {problem}" for problem in problems]


def _lost(
    known: dict[str, Record],
    deliveries: dict[str, list[Delivery]],
    changes: dict[str, list[Record]],
    drained_by: str,
) -> list[str]:
    """A message that was acknowledged is there at the end, unless somebody tried to delete it."""
    left = {
        message
        for message, handed in deliveries.items()
        if any(delivery.by.client == drained_by for delivery in handed)
    }
    given_up = {
        message
        for message, asked in changes.items()
        if any(each.kind == "delete" and each.outcome is not Outcome.REFUSED for each in asked)
    }
    return [f"lost: {known[message]}" for message in sorted(known.keys() - left - given_up)]


def _check_message(
    put: Record | None, handed: list[Delivery], changes: list[Record], possible: set[str]
) -> list[str]:
    problems = []
    for one, other in pairwise(handed):
        if one.count == other.count:
            problems.append(f"one delivery went to two:\n    {one}\n    {other}")
        if other.by.returned_at < _hidden_until(one.by, changes, other.by):
            problems.append(f"handed out while it was hidden:\n    {one}\n    {other}")
        if other.by.returned < one.by.called:
            problems.append(f"deliveries in the wrong order:\n    {one}\n    {other}")
    for delivery in handed:
        if delivery.text not in _texts(put, changes, delivery.by, possible):
            problems.append(f"a text that it does not have: {delivery}, of {put}")
        problems += [
            f"delivered after it was deleted:\n    {each}\n    {delivery}"
            for each in changes
            if each.kind == "delete"
            and each.outcome is Outcome.DONE
            and each.returned < delivery.by.called
        ]
    problems += _stale_receipts(handed, changes)
    return problems


def _hidden_until(taken: Record, changes: list[Record], next_taken: Record | None) -> int:
    """The earliest moment at which a message that was taken may be visible again."""
    until = taken.called_at + seconds(taken.args["hidden"])
    for change in changes:
        if change.outcome is Outcome.REFUSED or change.returned < taken.called:
            continue
        if next_taken is None or change.called < next_taken.returned:
            until = min(until, change.called_at + seconds(change.args.get("hidden", 0)))
    return until


def _texts(put: Record | None, changes: list[Record], by: Record, possible: set[str]) -> set[str]:
    """What a read may find: what was written last before it, or anything that ran beside it."""
    updates = [each for each in changes if each.kind == "update"]
    applied = [each for each in updates if each.outcome is not Outcome.REFUSED]
    before = [
        each for each in applied if each.outcome is Outcome.DONE and each.returned < by.called
    ]
    latest = max((each.called for each in before), default=0)
    texts = {
        each.args["text"]
        for each in applied
        if each.called < by.returned and each.returned >= latest
    }
    if not before:
        texts |= possible if put is None else {put.args["text"]}
    return texts


def _stale_receipts(handed: list[Delivery], changes: list[Record]) -> list[str]:
    """A receipt is good until somebody else was given one, by a Get or by an Update."""
    replaced = [(one.receipt, other.by) for one, other in pairwise(handed)]
    replaced += [(each.args["receipt"], each) for each in changes if "receipt" in each.found]
    return [
        f"an old receipt was good:\n    {each}\n    {by}"
        for receipt, by in replaced
        for each in changes
        if each.outcome is Outcome.DONE
        and each.args["receipt"] == receipt
        and each.called > by.returned
    ]


def _given_twice(records: list[Record], deliveries: dict[str, list[Delivery]]) -> list[str]:
    """Every Put, Get and Update gives out a receipt that nobody was given before."""
    given = Counter(each.found["receipt"] for each in records if "receipt" in each.found)
    given.update(each.receipt for handed in deliveries.values() for each in handed)
    return [f"one receipt was given twice: {each}" for each, n in given.items() if n > 1]


def _peeked_while_hidden(
    records: list[Record],
    deliveries: dict[str, list[Delivery]],
    changes: dict[str, list[Record]],
) -> list[str]:
    problems = []
    for record in records:
        if record.kind != "peek" or record.outcome is not Outcome.DONE:
            continue
        for each in record.found["messages"]:
            problems += [
                f"seen while it was hidden:\n    {delivery}\n    {record}"
                for delivery in deliveries.get(each["id"], ())
                if delivery.by.returned < record.called
                and record.returned_at
                < _hidden_until(delivery.by, changes.get(each["id"], []), record)
            ]
    return problems
