"""Atom entries and feeds, as the administration API wraps its descriptions in them."""

from collections.abc import Iterable
from typing import Final, NamedTuple
from urllib.parse import quote

from etagere.base.clock import Timestamp
from etagere.base.errors import Refused
from etagere.frontends.common import xml
from etagere.frontends.common.message import Response
from etagere.frontends.common.xml import Node
from etagere.kernel.dates import format_iso

namespace: Final = "http://www.w3.org/2005/Atom"
_entry_type: Final = "application/atom+xml;type=entry;charset=utf-8"
_feed_type: Final = "application/atom+xml;type=feed;charset=utf-8"


class Entry(NamedTuple):
    path: str
    """Of the entity, cased as the SDKs split it: `topic/Subscriptions/sub/Rules/rule`."""
    title: str
    published: Timestamp
    updated: Timestamp
    content: str
    """The XxxDescription element."""


class Wrapper(NamedTuple):
    """What every entry and feed of one answer shares."""

    base: str
    """`https://HOST/`"""
    version: str
    author: str

    def url(self, path: str) -> str:
        """Names keep their letters; what a client made up may hold anything."""
        return xml.quote(f"{self.base}{quote(path, safe='/$')}?api-version={self.version}")

    def entry(self, entry: Entry, status: int = 200) -> Response:
        body = xml.declaration + self._entry(entry, f' xmlns="{namespace}"')
        return Response(status, {"Content-Type": _entry_type}, body.encode())

    def feed(
        self, title: str, path: str, entries: Iterable[Entry], now: Timestamp, following: str = ""
    ) -> Response:
        """`following` is the query of the next page, if there is one."""
        link = ""
        if following:
            link = f'<link rel="next" href="{self.url(path)}{xml.quote(following)}"/>'
        body = (
            f'{xml.declaration}<feed xmlns="{namespace}">'
            f'<title type="text">{xml.escape(title)}</title><id>{self.url(path)}</id>'
            f"<updated>{format_iso(now)}</updated>"
            f'<link rel="self" href="{self.url(path)}"/>{link}'
            + "".join(self._entry(entry, "") for entry in entries)
            + "</feed>"
        )
        return Response(200, {"Content-Type": _feed_type}, body.encode())

    def _entry(self, entry: Entry, attributes: str) -> str:
        url = self.url(entry.path)
        return (
            f'<entry{attributes}><id>{url}</id><title type="text">{xml.escape(entry.title)}</title>'
            f"<published>{format_iso(entry.published)}</published>"
            f"<updated>{format_iso(entry.updated)}</updated>"
            f"<author><name>{xml.escape(self.author)}</name></author>"
            f'<link rel="self" href="{url}"/>'
            f'<content type="application/xml">{entry.content}</content></entry>'
        )


def content_of(data: bytes) -> Node:
    """The description inside an entry."""
    root = xml.parse(data, "entry")
    content = root.child("content")
    if content is None or len(content.children) != 1:
        raise Refused("InvalidXmlDocument", message="The entry has no description for content.")
    return content.children[0]
