"""What the histories are checked for is found."""

import pytest

from .history import History

one, other = object(), object()


def history(**sessions: str) -> History:
    """`a` and `b` were sent, in this order, by one link, and acknowledged."""
    made = History()
    for name in ("a", "b"):
        made.sending("link", name, sessions.get(name))
        made.acknowledged(name)
    return made


def finish(made: History, *names: str) -> None:
    for name in names:
        made.completing(name)
        made.settled(one, name, complete=True, performed=True)


def good() -> History:
    made = history()
    made.delivered(one, "a", 1, 0)
    made.delivered(other, "b", 2, 0)
    made.gone(other)
    made.delivered(one, "b", 2, 1)
    finish(made, "a", "b")
    return made


def test_a_good_one() -> None:
    good().check()


def lost() -> History:
    made = history()
    made.delivered(one, "a", 1, 0)
    finish(made, "a")
    return made


def locked_twice() -> History:
    made = history()
    made.delivered(one, "a", 1, 0)
    made.delivered(other, "a", 1, 0)
    made.delivered(one, "b", 2, 0)
    finish(made, "a", "b")
    return made


def completed_and_delivered() -> History:
    made = good()
    made.delivered(other, "a", 1, 0)
    return made


def completion_refused() -> History:
    made = good()
    made.settled(one, "a", complete=True, performed=False)
    return made


def gap() -> History:
    made = history()
    made.delivered(one, "a", 1, 0)
    made.delivered(one, "b", 3, 0)
    finish(made, "a", "b")
    return made


def repeated_number() -> History:
    made = history()
    made.delivered(one, "a", 1, 0)
    made.delivered(one, "b", 1, 0)
    finish(made, "a", "b")
    return made


def renumbered() -> History:
    made = good()
    made.fates["a"].completed = False
    made.delivered(other, "a", 3, 0)
    return made


def out_of_order() -> History:
    made = history()
    made.delivered(one, "a", 2, 0)
    made.delivered(one, "b", 1, 0)
    finish(made, "a", "b")
    return made


def forgotten_count() -> History:
    made = good()
    made.fates["b"].completed = False
    made.delivered(one, "b", 2, 0)
    return made


def invented() -> History:
    made = good()
    made.delivered(one, "c", 3, 0)
    return made


def session_twice() -> History:
    made = history(a="s", b="s")
    made.session_opened(one, "s")
    made.session_opened(other, "s")
    return made


def session_for_another() -> History:
    made = history(a="s", b="s")
    made.session_opened(one, "s", "t")
    return made


def session_out_of_order() -> History:
    made = history(a="s", b="s")
    made.session_opened(one, "s")
    made.delivered(one, "a", 1, 0)
    made.gone(one)
    made.session_opened(other, "s")
    made.session_delivered(other, "s", "b", 2)
    return made


def session_of_another() -> History:
    made = history(a="s", b="s")
    made.session_opened(one, "t")
    made.session_delivered(one, "t", "a", 1)
    return made


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lost, "is lost"),
        (locked_twice, "two receivers at once"),
        (completed_and_delivered, "after its completion"),
        (completion_refused, "was refused"),
        (gap, "gaps"),
        (repeated_number, "is the number of"),
        (renumbered, "has two numbers"),
        (out_of_order, "out of order"),
        (forgotten_count, "delivery count"),
        (invented, "never sent"),
        (session_twice, "session s has two receivers"),
        (session_for_another, "session s was given for session t"),
        (session_out_of_order, "came before a"),
        (session_of_another, "came with session t"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_wrong_is_found(make, text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        make().check()


def test_what_is_wrong_already_is_not_waited_for() -> None:
    lost().check_so_far()  # it may still come
    with pytest.raises(AssertionError, match="two receivers at once"):
        locked_twice().check_so_far()
