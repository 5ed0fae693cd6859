"""The body of Put Message and Update Message: one element inside another.

    <QueueMessage><MessageText>text</MessageText></QueueMessage>

Clients write it in one of a few ways, always the same for each of them, and the text between the
tags is mostly base64 or JSON.  What is written so is cut out where it stands; everything else, and
whatever is doubtful, goes to the parser, which decides alone what is refused.
"""

from typing import Final

from etagere.base.errors import Refused
from etagere.frontends.common import xml

_begin: Final = b"<MessageText>"
_end: Final = b"</MessageText></QueueMessage>"
_root: Final = b"<QueueMessage>"
_heads: Final = frozenset(
    {
        _root,
        b"\xef\xbb\xbf" + _root,
        # azure-storage-queue; @azure/storage-queue; .NET, Java; Go
        b"<?xml version='1.0' encoding='utf-8'?>\n" + _root,
        b'<?xml version="1.0" encoding="UTF-8" standalone="yes"?>' + _root,
        b'<?xml version="1.0" encoding="utf-8"?>' + _root,
        b"<?xml version='1.0' encoding='UTF-8'?>" + _root,
        b'<?xml version="1.0" encoding="UTF-8"?>\n' + _root,
    }
)
"""What may stand before the text without any question of its meaning."""

_head_bytes_max: Final = max(map(len, _heads)) + len(_begin)
_not_plain: Final = bytes({*range(0x20), *b"<>&"} - {*b"\t\n"})
"""Markup; `]]>`, which ends in it; what XML has no room for; and returns, which it normalises."""


def plain_text(data: bytes) -> str | None:
    """The text, where the body is written as clients write it and nothing in it is escaped."""
    start = data.find(_begin, 0, _head_bytes_max)
    if start < 0 or data[:start] not in _heads or not data.endswith(_end):
        return None
    raw = data[start + len(_begin) : -len(_end)]
    if len(raw.translate(None, _not_plain)) != len(raw):
        return None
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return None
    if not text.isascii() and ("\ufffe" in text or "\uffff" in text):
        return None
    return text


def any_text(data: bytes) -> str:
    """The text of whatever is well formed; raises Refused."""
    node = xml.parse(data, "QueueMessage").child("MessageText")
    if node is None:
        raise Refused("MissingRequiredXmlNode", {"XmlNodeName": "MessageText"})
    if node.children or not xml.is_representable(node.text):
        raise xml.invalid_document("MessageText must hold text.")
    return node.text
