"""Is there an order, one at a time, in which every answer would have been right?

After Wing and Gong, "Testing and verifying concurrent objects": an order that respects which
request had returned before another was called.  What is searched is a graph of (requests done,
state), and no node of it twice.  Two short cuts that lose no answer: a request that only reads and
is right as things stand is taken at once; one of which nobody knows whether it happened is dropped
only when nothing else can go on without it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .history import Outcome, Record

Version = tuple[str, str, str]
"""Content, annotation, ETag."""
State = tuple[Version | None, ...]
"""The rows of one unit of atomicity: a blob, or the entities of a partition that are looked at."""
Model = Callable[[State, Record], Iterable[State]]
"""The states that a request may leave behind; none, if its answer was not right."""

nodes_max = 400_000
idempotent = ("stage",)
"""Writes that may change nothing now, and something if they come later: no readers."""


class NotDecided(Exception):  # noqa: N818 - says what came of it
    """The search was given up."""


@dataclass(slots=True)
class _Search:
    records: list[Record]
    model: Model
    deepest: tuple[int, int, State] = (-1, 0, ())

    def run(self, start: State) -> bool:
        everything = (1 << len(self.records)) - 1
        seen: set[tuple[int, State]] = set()
        stack = [(0, start)]
        while stack:
            done, state = self._take_readers(*stack.pop())
            if done == everything:
                return True
            if (done, state) in seen:
                continue
            seen.add((done, state))
            if len(seen) > nodes_max:
                raise NotDecided
            count = done.bit_count()
            if count > self.deepest[0]:
                self.deepest = (count, done, state)
            candidates, first_to_return = self._candidates(done)
            if self.records[first_to_return].outcome is Outcome.MAYBE:
                stack.append((done | 1 << first_to_return, state))
            for index in reversed(candidates):
                stack += [
                    (done | 1 << index, after) for after in self.model(state, self.records[index])
                ]
        return False

    def _take_readers(self, done: int, state: State) -> tuple[int, State]:
        """Everything that changes nothing and may come now, until there is no more of it."""
        while True:
            candidates, _ = self._candidates(done)
            readers = 0
            for index in candidates:
                record = self.records[index]
                if record.outcome is not Outcome.REFUSED and record.kind in idempotent:
                    continue
                if list(self.model(state, record)) == [state]:
                    readers |= 1 << index
            if not readers:
                return done, state
            done |= readers

    def _candidates(self, done: int) -> tuple[list[int], int]:
        """Which may come next: those called before the first of the rest returned."""
        soonest, first = 1 << 62, -1
        found = []
        index = (~done & (done + 1)).bit_length() - 1
        while index < len(self.records) and self.records[index].called < soonest:
            if not done >> index & 1:
                found.append(index)
                if self.records[index].returned < soonest:
                    soonest, first = self.records[index].returned, index
            index += 1
        return [each for each in found if self.records[each].called < soonest], first


def explain(records: list[Record], model: Model, start: State) -> str | None:
    """Where every order ends in a contradiction; None if one does not."""
    search = _Search(records, model)
    if search.run(start):
        return None
    _, done, state = search.deepest
    candidates, _ = search._candidates(done)
    stuck = "\n".join(f"    {records[index]}" for index in candidates)
    return f"no order explains the history; in {state} none of these may come next:\n{stuck}"


# ---- blobs


_unseen = "unseen "


class Etags:
    """Which ETag each version was seen with, and that no version was seen with two."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], str] = {}
        self._owners: dict[str, tuple[str, str, str]] = {}
        self.problems: list[str] = []

    def saw(self, row: str, content: str, note: str, etag: str) -> None:
        version = (row, content, note)
        if self._known.setdefault(version, etag) != etag:
            self.problems.append(f"{version} has two ETags: {self._known[version]} and {etag}")
        if self._owners.setdefault(etag, version) != version:
            self.problems.append(f"{etag} is that of {self._owners[etag]} and of {version}")

    def of(self, row: str, content: str, note: str) -> str:
        """The ETag, or for a version that nobody saw one that nobody knows."""
        return self._known.get((row, content, note), f"{_unseen}{content}/{note}")

    def is_known(self, etag: str) -> bool:
        return etag in self._owners


def check_blob(name: str, records: list[Record]) -> list[str]:
    etags = Etags()
    for record in records:
        if record.outcome is Outcome.DONE and record.kind == "put":
            etags.saw(name, record.args["content"], "", record.found["etag"])
        if record.outcome is Outcome.DONE and record.kind == "get":
            if record.found["content"] is None:
                return [f"{name}: parts of two versions, or half of one: {record}"]
            found = record.found
            etags.saw(name, found["content"], found["meta"], found["etag"])
    problem = explain(records, _BlobModel(name, etags), (None, None))
    return [f"{name}: {text}" for text in etags.problems + ([problem] if problem else [])]


_staged: Version = ("staged", "", "")


@dataclass(slots=True)
class _BlobModel:
    """The state is the blob, and whether blocks are staged: deleting nothing but those succeeds."""

    name: str
    etags: Etags

    def __call__(self, state: State, record: Record) -> Iterable[State]:
        version, staged = state
        if record.outcome is Outcome.REFUSED:
            return [state] if _blob_refused(version, staged, record) else []
        if not _conditions_hold(version, record):
            return []
        match record.kind:
            case "stage":
                return [(version, _staged)]
            case "put":
                after: Version | None = self._version(record, record.args["content"], "")
            case "annotate" if version is not None:
                return [(self._version(record, version[0], record.args["meta"]), staged)]
            case "delete" if version is not None or staged is not None:
                after = None
            case "lease" if version is not None:
                return self._told(state, version, record.found.get("etag", version[2]))
            case "get" if record.outcome is Outcome.MAYBE:
                return [state]
            case "get" if version is not None:
                found = record.found
                told_version = (found["content"], found["meta"], found["etag"])
                return [state] if told_version == version else []
            case _:
                return []
        return [(after, None)]

    def _told(self, state: State, version: Version, etag: str) -> Iterable[State]:
        """A lease action tells the ETag, of a version that perhaps nobody had seen before."""
        if version[2] == etag:
            return [state]
        if version[2].startswith(_unseen) and not self.etags.is_known(etag):
            return [((version[0], version[1], etag), state[1])]
        return []

    def _version(self, record: Record, content: str, note: str) -> Version:
        etag = record.found.get("etag")
        return content, note, self.etags.of(self.name, content, note) if etag is None else etag


def _conditions_hold(version: Version | None, record: Record) -> bool:
    wanted, unwanted = record.args.get("if-match"), record.args.get("if-none-match")
    if unwanted == "*" and record.kind == "put" and "x-ms-lease-id" in record.args:
        unwanted = None  # whoever holds the lease overwrites its own blob
    if wanted is not None and (version is None or wanted not in ("*", version[2])):
        return False
    return not (unwanted is not None and version is not None and unwanted in ("*", version[2]))


def _blob_refused(version: Version | None, staged: Version | None, record: Record) -> bool:
    """Whether a refusal is right as things stand; some are none of a register's business."""
    match record.code:
        case "BlobNotFound":
            return version is None and (staged is None or record.kind != "delete")
        case "BlobAlreadyExists":
            return version is not None and record.args.get("if-none-match") == "*"
        case "ConditionNotMet" | "TargetConditionNotMet":
            return not _conditions_hold(version, record)
        case "LeaseNotPresentWithBlobOperation" | "InvalidBlockList" | "InsufficientStorage":
            return True
        case code if code.startswith("Lease"):
            return version is not None
        case "" if record.status == 304:
            return not _conditions_hold(version, record)
        case _:
            return False


# ---- tables


def check_partition(name: str, records: list[Record], rows: tuple[str, ...]) -> list[str]:
    etags = Etags()
    for record in records:
        for row, (value, merged, etag) in record.found.get("rows", {}).items():
            etags.saw(row, value, merged, etag)
    problem = explain(records, _TableModel(rows, etags), (None,) * len(rows))
    return [f"{name}: {text}" for text in etags.problems + ([problem] if problem else [])]


@dataclass(slots=True)
class _TableModel:
    rows: tuple[str, ...]
    etags: Etags

    def __call__(self, state: State, record: Record) -> Iterable[State]:
        match record.kind, record.outcome:
            case "change", Outcome.REFUSED:
                return [state] if self._refused(state, record) else []
            case "change", _:
                after = self._changed(state, record, len(record.args["changes"]))
                return [] if after is None else [after]
            case _, Outcome.MAYBE:
                return [state]
            case "get", Outcome.REFUSED:
                there = state[self.rows.index(record.args["row"])]
                return [state] if there is None and record.status == 404 else []
            case "get", _:
                return [state] if self._seen(state, record, (record.args["row"],)) else []
            case "query", Outcome.DONE:
                return [state] if self._seen(state, record, self.rows) else []
            case _:
                return []

    def _seen(self, state: State, record: Record, rows: tuple[str, ...]) -> bool:
        found = record.found["rows"]
        return all(
            state[self.rows.index(row)] == (tuple(found[row]) if row in found else None)
            for row in rows
        )

    def _changed(self, state: State, record: Record, count: int) -> State | None:
        """After the first `count` changes of a set; None if one of them would be refused."""
        after = list(state)
        for number, change in enumerate(record.args["changes"][:count]):
            index = self.rows.index(change["row"])
            version = after[index]
            if _change_refusal(version, change):
                return None
            told = record.found.get("etags")
            after[index] = self._apply(version, change, told[number] if told else None)
        return tuple(after)

    def _apply(
        self, version: Version | None, change: dict[str, str], etag: str | None
    ) -> Version | None:
        if change["change"] == "delete":
            return None
        if change["change"] == "merge":
            value, merged = (version[0] if version else ""), change["mark"]
        else:
            value, merged = change["mark"], ""
        return value, merged, etag or self.etags.of(change["row"], value, merged)

    def _refused(self, state: State, record: Record) -> bool:
        if record.code == "InsufficientStorage":
            return True
        index = record.found.get("index", 0)
        before = self._changed(state, record, index)
        if before is None:
            return False
        change = record.args["changes"][index]
        return _change_refusal(before[self.rows.index(change["row"])], change) == record.code


def _change_refusal(version: Version | None, change: dict[str, str]) -> str:
    """The code that a change is refused with, or nothing."""
    if change["change"] == "insert":
        return "" if version is None else "EntityAlreadyExists"
    wanted = change.get("if-match")
    if wanted is None:
        return ""
    if version is None:
        return "ResourceNotFound"
    return "" if wanted in ("*", version[2]) else "UpdateConditionNotSatisfied"
