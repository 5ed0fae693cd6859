"""Runs a body to its end in one go, as the embedded engines do."""

from contextlib import suppress
from typing import TypeVar

from etagere.kv.contract import Body, ForeignAwait

T = TypeVar("T")
X = TypeVar("X")


def run(body: Body[X, T], tx: X) -> T:
    """What the body returns or raises.

    Its awaits are answered without suspending, so a single `send` reaches the end; a body that
    suspends awaited something that is not its transaction's.
    """
    coroutine = body(tx)
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # StopIteration is not generic
    with suppress(RuntimeError):  # it awaits again while it is being closed
        coroutine.close()
    raise ForeignAwait
