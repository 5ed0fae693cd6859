"""XML: what is read, what is refused, and text that comes through unchanged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etagere.base.errors import Refused
from etagere.frontends.common import xml

representable = st.text().filter(xml.is_representable)


def test_what_xml_can_carry() -> None:
    """'Char' in XML 1.0, 2.2, for every code point there is."""
    ranges = ((0x9, 0xA), (0xD, 0xD), (0x20, 0xD7FF), (0xE000, 0xFFFD), (0x10000, 0x10FFFF))
    able = {code for first, last in ranges for code in range(first, last + 1)}
    assert {code for code in range(0x110000) if xml.is_representable(f"a{chr(code)}\n")} == able


@given(representable)
def test_text_comes_through(text: str) -> None:
    node = xml.parse(f'<a b="{xml.quote(text)}">{xml.escape(text)}</a>'.encode())
    assert node.text == text
    assert node.attributes == {"b": text}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<a>",
        b"<a></b>",
        b"<a/><b/>",
        b"text",
        b"<a>\x00</a>",
        b"\xff\xfe",
        b"<!DOCTYPE a><a/>",
        b'<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>',
        b'<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>',
        b"<a>&undefined;</a>",
        b"<a>" * 100 + b"</a>" * 100,
        b"<a>" + b"<b/>" * 250_001 + b"</a>",
    ],
)
def test_what_is_refused(data: bytes) -> None:
    with pytest.raises(Refused) as refused:
        xml.parse(data)
    assert refused.value.code == "InvalidXmlDocument"
    assert set(refused.value.details) == {"LineNumber", "LinePosition", "Reason"}


def test_prefixes_and_order_of_children() -> None:
    node = xml.parse(b'\xef\xbb\xbf<n:a xmlns:n="u"><n:b>1</n:b><c/><n:b>2</n:b></n:a>', "a")
    assert [child.name for child in node.children] == ["b", "c", "b"]
    assert [child.text for child in node.all("b")] == ["1", "2"]
    assert node.text_of("c") == ""
    assert node.text_of("d") is None


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    code = None
    try:
        xml.parse(data)
    except Refused as refused:
        code = refused.code
    assert code in (None, "InvalidXmlDocument")
