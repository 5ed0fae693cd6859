"""Named points at which a tester may make things go wrong."""

from typing import Protocol


class Faults(Protocol):
    def reach(self, point: str, subject: str = "") -> None:
        """Pass a fault point; raises what was armed for it, if anything was.

        `subject` is what an armed fault may be narrowed to: an operation's name, an entity's path.
        """
        ...


class NoFaults:
    """Nothing ever goes wrong on purpose."""

    def reach(self, point: str, subject: str = "") -> None:
        pass
