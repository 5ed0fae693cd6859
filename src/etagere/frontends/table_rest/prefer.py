"""The Prefer header of Create Table and Insert Entity."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from etagere.frontends.common.message import Request

no_content: Final = "return-no-content"
_content: Final = "return-content"


def preference(headers: Mapping[str, str]) -> str | None:
    """Which of the two preferences that tables know was asked for."""
    asked = headers.get("prefer")
    return None if asked is None else _known(asked)


@lru_cache(maxsize=64)
def _known(asked: str) -> str | None:
    for item in asked.split(","):
        name = item.strip().lower()
        if name in (no_content, _content):
            return name
    return None


def wants_content(request: Request) -> bool:
    return preference(request.headers) != no_content


def applied(request: Request) -> dict[str, str]:
    asked = preference(request.headers)
    return {} if asked is None else {"Preference-Applied": asked}
