"""What clients asked for and what they were told, in order: all that the checkers look at."""

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    DONE = "done"
    REFUSED = "refused"
    """An error that says that nothing was changed."""
    MAYBE = "maybe"
    """A failure, or nobody was there to hear: it may have happened or not."""


@dataclass(slots=True)
class Record:
    """One request.  `called` and `returned` count events, the moments are ticks."""

    number: int
    client: str
    service: str
    key: str
    """Whose history it belongs to: a blob, a queue, a partition of a table."""
    kind: str
    args: dict[str, Any]
    called: int
    called_at: int
    returned: int = 0
    returned_at: int = 0
    outcome: Outcome = Outcome.MAYBE
    status: int = 0
    code: str = ""
    found: dict[str, Any] = field(default_factory=dict)
    """What the answer said: an ETag, a content, messages."""


class History:
    def __init__(self) -> None:
        self.records: list[Record] = []
        self._events = 0

    def begin(
        self, client: str, service: str, key: str, kind: str, args: dict[str, Any], now: int
    ) -> Record:
        self._events += 1
        record = Record(len(self.records), client, service, key, kind, args, self._events, now)
        self.records.append(record)
        return record

    def end(self, record: Record, now: int) -> None:
        self._events += 1
        record.returned, record.returned_at = self._events, now

    def of(self, service: str) -> dict[str, list[Record]]:
        """By key, in the order in which they were called."""
        found: dict[str, list[Record]] = {}
        for record in self.records:
            if record.service == service:
                found.setdefault(record.key, []).append(record)
        return found

    def text(self) -> str:
        """A line each, always spelt the same."""
        return "".join(json.dumps(asdict(record), sort_keys=True) + "\n" for record in self.records)
