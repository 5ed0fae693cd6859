"""What clients of a queue were told, and whether a queue that keeps its promises can have said it.

Every client notes each request with the moments, by one clock that the server shares, at which it
was sent and its reply had come; a request without a reply may have been carried out or not.  The
wire tells whole seconds, rounded down, so that a moment read from it is never later than the true
one: every check below holds of any server that is right, however slow, and none needs speed.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from math import floor

never = float("inf")


@dataclass(slots=True)
class Put:
    text: str
    started: float
    ended: float = never
    message: str | None = None
    """Its id; None if no reply came."""


@dataclass(slots=True)
class Get:
    """A Get Messages without a reply: it may have taken as many messages as it asked for."""

    started: float
    wanted: int


@dataclass(slots=True)
class Delivery:
    message: str
    count: int
    text: str
    receipt: str
    next_visible: float
    asked_hidden: float
    started: float
    """When the request that brought it was sent."""
    ended: float


@dataclass(slots=True)
class Settling:
    """A Delete or an Update, and the receipt that it was made with."""

    message: str
    receipt: str
    started: float
    ended: float = never
    status: int | None = None
    """None if no reply came."""
    hidden: float | None = None
    """What an Update asked for; None for a Delete."""
    new_receipt: str = ""
    next_visible: float = 0
    """What the reply to an Update said."""


@dataclass(slots=True)
class History:
    puts: list[Put] = field(default_factory=list)
    lost_gets: list[Get] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    settlings: list[Settling] = field(default_factory=list)

    def problems(self) -> list[str]:
        return [
            *self._puts(),
            *self._counts(),
            *(problem for story in self._stories() for problem in story.problems()),
        ]

    def _puts(self) -> Iterator[str]:
        """Acknowledged messages are delivered as they were put, and each of them once put."""
        texts = {put.text: put for put in self.puts}
        assert len(texts) == len(self.puts), "texts tell messages apart"
        ids: defaultdict[str, set[str]] = defaultdict(set)
        for delivery in self.deliveries:
            ids[delivery.text].add(delivery.message)
        for text in ids.keys() - texts.keys():
            yield f"a text that nobody put: {text[:40]!r}"
        for text, put in texts.items():
            if put.message is not None and put.message not in ids[text]:
                yield f"{text[:40]!r} was acknowledged and is lost"
            if len(ids[text]) > 1:
                yield f"{text[:40]!r} was put once and is there twice"

    def _counts(self) -> Iterator[str]:
        """Each delivery is counted, by one; only those of lost replies are not seen."""
        seen: defaultdict[str, Counter[int]] = defaultdict(Counter)
        for delivery in self.deliveries:
            seen[delivery.message][delivery.count] += 1
        unseen = 0
        for message, counts in seen.items():
            if any(times > 1 for times in counts.values()):
                yield f"{message}: one delivery went to two consumers"
            unseen += max(counts) - len(counts)
        if unseen > sum(get.wanted for get in self.lost_gets):
            yield f"{unseen} deliveries were counted that nobody asked for"

    def _stories(self) -> Iterator["_Story"]:
        stories: defaultdict[str, _Story] = defaultdict(_Story)
        for delivery in self.deliveries:
            stories[delivery.message].deliveries.append(delivery)
        for settling in self.settlings:
            stories[settling.message].settlings.append(settling)
        for message, story in stories.items():
            story.message = message
            story.deliveries.sort(key=lambda delivery: delivery.count)
            yield story


@dataclass(slots=True)
class _Story:
    """What happened to one message."""

    message: str = ""
    deliveries: list[Delivery] = field(default_factory=list)
    settlings: list[Settling] = field(default_factory=list)

    def problems(self) -> Iterator[str]:
        for problem in (*self._hidings(), *self._deletions(), *self._receipts()):
            yield f"{self.message}: {problem}"

    def _chain(self, receipt: str) -> Iterator[Settling]:
        """What was tried with a receipt, and with those that came of it."""
        for settling in self.settlings:
            if settling.receipt == receipt:
                yield settling
                if settling.new_receipt not in ("", receipt):
                    yield from self._chain(settling.new_receipt)

    def _hidden_until(self, delivery: Delivery) -> float:
        """The earliest moment at which anybody else may have the message after this delivery."""
        until = delivery.next_visible
        for settling in self._chain(delivery.receipt):
            if settling.hidden is None:
                continue
            if settling.status == 204:
                until = settling.next_visible
            elif settling.status is None:  # carried out or not, at any moment since
                until = min(until, settling.started + settling.hidden)
        return until

    def _hidings(self) -> Iterator[str]:
        for delivery in self.deliveries:
            told = delivery.next_visible
            if not (
                floor(delivery.started + delivery.asked_hidden)
                <= told
                <= delivery.ended + delivery.asked_hidden
            ):
                yield "hidden for another time than was asked for"
        for settling in self.settlings:
            if settling.hidden is not None and settling.status == 204:
                earliest = floor(settling.started + settling.hidden)
                if not earliest <= settling.next_visible <= settling.ended + settling.hidden:
                    yield "hidden by Update for another time than was asked for"
        for before, after in pairwise(self.deliveries):
            if after.ended < floor(self._hidden_until(before)):
                yield "handed out while it was hidden"

    def _deletions(self) -> Iterator[str]:
        done = [each for each in self.settlings if each.hidden is None and each.status == 204]
        if len(done) > 1:
            yield "deleted twice"
        for deletion in done:
            if any(each.started > deletion.ended for each in self.deliveries):
                yield "delivered after its deletion"
            if any(
                each.status == 204 and each.started > deletion.ended
                for each in self.settlings
                if each is not deletion
            ):
                yield "updated after its deletion"

    def _receipts(self) -> Iterator[str]:
        issued = [(each.receipt, each.started, each.ended, each) for each in self.deliveries]
        issued += [
            (each.new_receipt, each.started, each.ended, each)
            for each in self.settlings
            if each.new_receipt
        ]
        if len({receipt for receipt, *_ in issued}) < len(issued):
            yield "one receipt was given twice"
        for settling in self.settlings:
            given = [entry for entry in issued if entry[0] == settling.receipt]
            assert given, "tried with a receipt that was never given"
            if settling.status == 204:
                # The newer ones that were given wholly between the receipt and its use.
                if any(
                    started > given[0][2] and ended < settling.started
                    for _, started, ended, _ in issued
                ):
                    yield "a stale receipt was accepted"
            elif settling.status == 404 and not self._may_be_stale(settling, given[0][3]):
                yield "a good receipt was refused"

    def _may_be_stale(self, refused: Settling, source: Delivery | Settling) -> bool:
        """The message was visible again, or something else was tried with the same receipt."""
        return refused.ended >= floor(source.next_visible) or any(
            each is not refused and each.receipt == refused.receipt and each.status != 404
            for each in self.settlings
        )
