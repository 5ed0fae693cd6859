"""The text of a message, cut out or parsed: the same text, or left to the parser."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from etagere.base.errors import Refused
from etagere.frontends.queue_rest.message_xml import _heads, any_text, plain_text

body = b"<QueueMessage><MessageText>%s</MessageText></QueueMessage>"
written = [
    body,
    b"<?xml version='1.0' encoding='utf-8'?>\n" + body,
    b'<?xml version="1.0" encoding="UTF-8" standalone="yes"?>' + body,
    b'\xef\xbb\xbf<?xml version="1.0"?>' + body,
    b"<?xml version='1.0' encoding='iso-8859-1'?>" + body,
    b"<!--<QueueMessage>-->" + body,
    b"<QueueMessage>\n<MessageText>%s</MessageText>\n</QueueMessage>\n",
    b"<QueueMessage><MessageText a='b'>%s</MessageText></QueueMessage>",
    b"<QueueMessage xmlns='urn:a'><MessageText>%s</MessageText></QueueMessage>",
    b"<QueueMessage><MessageText>a</MessageText><MessageText>%s</MessageText></QueueMessage>",
    b"<QueueMessage><Other><MessageText>%s</MessageText></Other></QueueMessage>",
]
pieces = st.one_of(
    st.text(max_size=20).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.binary(max_size=6),
    st.sampled_from(
        [
            b"\r\n", b"\r", b"\n", b"\t", b"]]>", b"&amp;", b"&#65;", b"&#0;", b"<![CDATA[x]]>",
            b"<!--x-->", b"<?a b?>", b"\xef\xbf\xbe", b"\xef\xbf\xbf", b"\xed\xa0\x80", b"\x7f",
            b"\xc2\x85", b"\xe2\x80\xa8", b"\xef\xbb\xbf", b"\0", b"\x0b", b"<a/>",
            b"</MessageText>", b"<MessageText>", b"</MessageText></QueueMessage>", b"\xc0\x80",
            b"\xf4\x90\x80\x80",
        ]
    ),
)  # fmt: skip


def parsed(data: bytes) -> str | None:
    try:
        return any_text(data)
    except Refused:
        return None


def agree(data: bytes) -> None:
    """What is cut out is what the parser would have found; what it refuses is never cut out."""
    cut = plain_text(data)
    assert cut is None or cut == parsed(data)


@given(st.sampled_from(written), st.lists(pieces, max_size=6).map(b"".join))
@example(written[0], b"]]>")
@example(written[0], b"\xef\xbf\xbe")
@example(written[0], b"a</MessageText></QueueMessage><QueueMessage><MessageText>b")
def test_cut_out_or_parsed(form: bytes, text: bytes):
    agree(form.replace(b"%s", text))


@given(
    st.sampled_from(written),
    st.text(max_size=30),
    st.integers(0, 200),
    st.integers(0, 8),
    st.binary(max_size=4),
)
def test_bodies_that_were_tampered_with(form: bytes, text: str, at: int, out: int, put_in: bytes):
    data = form.replace(b"%s", text.encode("utf-8", "replace"))
    at %= len(data) + 1
    agree(data[:at] + put_in + data[at + out :])


@given(st.binary(max_size=100))
def test_anything(data: bytes):
    agree(data)


@pytest.mark.parametrize("head", sorted(_heads), ids=repr)
@pytest.mark.parametrize(
    "text",
    ["", "a", "aGVsbG8=", '{"a": ["b", 1]}\n', "\t\u00e9\u20ac\U0001f600\x7f\x85", "x" * 65_536],
    ids=lambda text: repr(text[:20]),
)
def test_usual_bodies_are_cut_out(head: bytes, text: str):
    """Where that is known to be right: every head is one that the parser reads as we do."""
    data = head + f"<MessageText>{text}</MessageText></QueueMessage>".encode()
    assert plain_text(data) == any_text(data) == text


@pytest.mark.parametrize(
    "text", ["a<b/>", "a&amp;b", "a>b", "a\rb", "a\x00b", "a\x1fb", "\ufffe", "a\uffffb"]
)
def test_whatever_is_doubtful_is_parsed(text: str):
    body = f"<QueueMessage><MessageText>{text}</MessageText></QueueMessage>"
    assert plain_text(body.encode()) is None
