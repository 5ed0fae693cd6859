"""Which account and which path a request names, in path style and in host style."""

from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote

from etagere.base.errors import Refused

service_labels: Final = frozenset({"blob", "queue", "table", "file", "dfs", "web"})
_host_suffixes: Final = ("-ipv6", "-dualstack")
_secondary: Final = "-secondary"


class Address(NamedTuple):
    account: str
    secondary: bool
    path: str
    """The rest of the path, still percent-encoded, without its leading slash."""
    host_style: bool
    website: bool = False
    """Whether the host is the account's static website."""


def resolve(host: str, raw_path: str) -> Address:
    """Read `acct.blob.<suffix>/rest` or `host/acct/rest`.

    Host style is recognised by its second label, so that any suffix that resolves here will do.
    """
    name = _account_of_host(host)
    host_style = name is not None
    if name is not None:
        path = raw_path[1:]
    else:
        name, _, path = raw_path[1:].partition("/")
        if "%" in name:
            name = unquote(name)
    if not name:
        raise Refused("InvalidUri")
    if name.endswith(_secondary):
        return Address(name[: -len(_secondary)], True, path, host_style)
    website = host_style and _is_website_zone(host.lower().partition(":")[0].split(".", 2))
    return Address(name, secondary=False, path=path, host_style=host_style, website=website)


@lru_cache(maxsize=256)
def _account_of_host(host: str) -> str | None:
    """The account that a host name begins with, or None where the path names it."""
    labels = host.lower().partition(":")[0].split(".", 2)
    if len(labels) < 2 or not (labels[1] in service_labels or _is_website_zone(labels)):
        return None
    name = labels[0]
    for suffix in _host_suffixes:
        name = name.removesuffix(suffix)
    return name


def _is_website_zone(labels: list[str]) -> bool:
    return (
        len(labels) > 2
        and labels[1].startswith("z")
        and labels[1][1:].isdigit()
        and labels[2].startswith("web")
    )


def decode(segment: str) -> str:
    """Percent-decode a path once; bytes that are not UTF-8 name nothing."""
    if "%" not in segment:
        return segment
    try:
        return unquote(segment, errors="strict")
    except UnicodeDecodeError:
        raise Refused("InvalidUri") from None
