"""Chance comes from outside, so that a whole run can be replayed from one seed."""

from typing import Protocol


class Entropy(Protocol):
    def token(self, size: int) -> bytes:
        """`size` unpredictable bytes."""
        ...

    def uuid(self) -> str:
        """A random UUID, dashed and lower case."""
        ...
