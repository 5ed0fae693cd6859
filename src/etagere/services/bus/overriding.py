"""`typing.override`, which Python has from 3.12 on."""

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from typing_extensions import override as override  # noqa: PLC0414 - handed on
else:
    F = TypeVar("F")

    def override(method: F) -> F:
        return method
