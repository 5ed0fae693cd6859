"""Whatever a request says, it is a request value or a documented refusal."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from etagere.base.errors import Refused
from etagere.frontends.common.message import Request
from etagere.frontends.common.xml import escape
from etagere.frontends.queue_rest import decode, errors
from etagere.frontends.queue_rest.names import check_queue_name

from .harness import version

codes = {
    "",
    "InvalidQueryParameterValue",
    "InvalidXmlDocument",
    "MissingRequiredQueryParameter",
    "MissingRequiredXmlNode",
    "OutOfRangeQueryParameterValue",
    "RequestBodyTooLarge",
}


class Body:
    def __init__(self, data: bytes) -> None:
        self._data = data

    async def chunks(self):
        yield self._data

    async def read(self, bytes_max: int = 1 << 30) -> bytes:
        if len(self._data) > bytes_max:
            raise Refused("RequestBodyTooLarge")
        return self._data


def request(data: bytes = b"", query: dict[str, str] | None = None) -> Request:
    made = Request(
        method="POST",
        raw_path="/a/tasks/messages",
        raw_query="",
        headers={"content-length": str(len(data))},
        body=Body(data),
    )
    made.query = query or {}
    return made


def code_of(call) -> str:
    try:
        asyncio.run(call) if asyncio.iscoroutine(call) else call()
    except Refused as refusal:
        return refusal.code
    return ""


tags = st.sampled_from(
    ["<QueueMessage>", "</QueueMessage>", "<MessageText>", "</MessageText>", "<MessageText/>"]
)
near_bodies = st.lists(
    st.one_of(
        tags,
        st.text(max_size=5),
        st.sampled_from(["&amp;", "&#0;", "&#xD800;", "&e;", "<![CDATA[x]]>", "<!--x-->", "<?a?>"]),
    ),
    max_size=12,
).map("".join)


@given(
    st.one_of(
        st.binary(max_size=200), near_bodies.map(lambda text: text.encode("utf-8", "replace"))
    )
)
def test_any_body(data: bytes):
    assert code_of(decode.put_message(request(data), version, 1)) in codes


@given(st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Z", "Cc"))))
def test_texts_come_back_or_are_refused(text: str):
    body = f"<QueueMessage><MessageText>{escape(text)}</MessageText></QueueMessage>".encode()
    wanted = None
    try:
        wanted = asyncio.run(decode.put_message(request(body), version, 1)).text
    except Refused as refusal:
        code = refusal.code
    else:
        code = ""
    legal = all(char in "\t\n\r" or char >= " " for char in text)
    assert code == ("" if legal else "InvalidXmlDocument")
    assert not legal or wanted == text


values = st.one_of(
    st.integers().map(str),
    st.sampled_from(["", "0", "1", "-1", "32", "33", "604800", "604801", "7200", "7201", "1e3"]),
    st.text(max_size=20),
)


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "numofmessages",
                "visibilitytimeout",
                "messagettl",
                "popreceipt",
                "maxresults",
                "marker",
                "include",
                "prefix",
            ]
        ),
        values,
    ),
    st.sampled_from(["2009-09-19", "2011-08-18", "2017-04-17", version]),
)
def test_any_query(query: dict[str, str], spoken: str):
    made = request(query=query)
    for call in (
        lambda: decode.get_messages(made, spoken),
        lambda: decode.message_count(made),
        lambda: decode.pop_receipt(made),
        lambda: decode.list_queues(made),
        decode.put_message(made, spoken, 1),
        decode.update_message(made, spoken, "id"),
    ):
        assert code_of(call) in codes


@given(st.text(max_size=70))
def test_any_name(name: str):
    code = code_of(lambda: check_queue_name(name))
    assert code in {"", "OutOfRangeInput", "InvalidResourceName"}
    if not code:
        assert 3 <= len(name) <= 63
        assert name == name.lower()
        assert name.isascii()


def test_error_table_covers_what_the_service_refuses_with():
    for code in ("QueueNotFound", "QueueAlreadyExists", "MessageNotFound", "PopReceiptMismatch"):
        assert code in errors.queue
