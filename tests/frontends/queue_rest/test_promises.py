"""The checker of histories can fail: each promise broken in turn, and a history that keeps all."""

import pytest

from .promises import Delivery, Get, History, Put, Settling


def history() -> History:
    """One message got and given up, got again, kept for longer, and deleted; and one that waits."""
    return History(
        puts=[Put("a", 0.1, 0.2, "A"), Put("b", 0.1, 0.2, "B"), Put("c", 0.3)],
        deliveries=[
            Delivery("A", 1, "a", "r1", 12, 2, 10.5, 10.6),
            Delivery("A", 2, "a", "r2", 15, 2, 12.4, 13.1),
            Delivery("B", 1, "b", "s1", 12, 2, 10.5, 10.6),
        ],
        settlings=[
            Settling("A", "r1", 13.2, 13.3, 404),
            Settling("A", "r2", 13.5, 13.6, 204, 5, "r3", 18),
            Settling("A", "r2", 13.7, 13.8, 404),
            Settling("A", "r3", 14.0, 14.1, 204),
            Settling("B", "s1", 10.7, 10.8, 204),
        ],
    )


def test_a_queue_that_keeps_its_promises():
    assert history().problems() == []


def test_a_message_whose_put_had_no_reply_may_be_there_or_not():
    found = history()
    found.deliveries.append(Delivery("C", 1, "c", "t1", 12, 2, 10.5, 10.6))
    assert found.problems() == []


def tampered(change: str) -> History:
    found = history()
    _, second, other = found.deliveries
    stale, kept, again, deleted, other_deleted = found.settlings
    match change:
        case "lost":
            found.deliveries.remove(other)
            found.settlings.remove(other_deleted)
        case "changed text":
            other.text = "bb"
        case "there twice":
            found.deliveries.append(Delivery("BB", 1, "b", "u1", 12, 2, 10.5, 10.6))
        case "two consumers":
            found.deliveries.append(Delivery("B", 1, "b", "s2", 12, 2, 10.5, 10.6))
        case "counted twice":
            other.count = 2
        case "hidden too briefly":
            other.next_visible = 11
        case "hidden for too long":
            other.next_visible = 14
        case "handed out while hidden":
            second.started, second.ended, second.next_visible = 11.0, 11.9, 13
        case "handed out while hidden by Update":
            deleted.status = None
            found.deliveries.append(Delivery("A", 3, "a", "r4", 18, 2, 16.0, 16.1))
        case "Update hides too briefly":
            kept.next_visible = 17
        case "deleted twice":
            found.settlings.append(Settling("B", "s1", 10.9, 11.0, 204))
        case "delivered after its deletion":
            found.deliveries.append(Delivery("B", 2, "b", "s2", 15, 2, 13.0, 13.1))
        case "updated after its deletion":
            found.settlings.append(Settling("B", "s1", 10.9, 11.0, 204, 3, "s2", 13))
        case "stale receipt of a Get":
            stale.status = 204
        case "stale receipt of an Update":
            again.status = 204
        case "good receipt":
            other_deleted.status = 404
        case "one receipt for two":
            second.receipt = "r1"
            kept.receipt = again.receipt = "r1"
        case "the same receipt for an Update":
            kept.new_receipt = deleted.receipt = kept.receipt
    return found


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("lost", "is lost"),
        ("changed text", "that nobody put"),
        ("there twice", "is there twice"),
        ("two consumers", "went to two consumers"),
        ("counted twice", "that nobody asked for"),
        ("hidden too briefly", "another time than was asked for"),
        ("hidden for too long", "another time than was asked for"),
        ("handed out while hidden", "handed out while it was hidden"),
        ("handed out while hidden by Update", "handed out while it was hidden"),
        ("Update hides too briefly", "by Update for another time"),
        ("deleted twice", "deleted twice"),
        ("delivered after its deletion", "delivered after its deletion"),
        ("updated after its deletion", "updated after its deletion"),
        ("stale receipt of a Get", "a stale receipt was accepted"),
        ("stale receipt of an Update", "a stale receipt was accepted"),
        ("good receipt", "a good receipt was refused"),
        ("one receipt for two", "one receipt was given twice"),
        ("the same receipt for an Update", "one receipt was given twice"),
    ],
)
def test_each_broken_promise_is_seen(change: str, problem: str):
    assert any(problem in each for each in tampered(change).problems())


def test_a_lost_reply_explains_what_it_may_have_done():
    found = tampered("counted twice")
    found.lost_gets.append(Get(10.0, 1))
    assert found.problems() == []
    found = tampered("handed out while hidden by Update")
    found.settlings[1].status, found.settlings[1].new_receipt = None, ""
    del found.settlings[2:4]
    assert found.problems() == []
