"""What one SDK or another takes literally in the administration's XML, as their sources have it."""

import re

import pytest

from etagere.services.bus.descriptions import SubscriptionDescription, TopicDescription
from etagere.services.bus.rules import CorrelationRuleFilter, RuleDescription, SqlFilter, typed

from .conftest import Namespace
from .test_http_messages import Caller


@pytest.fixture
def call(namespace: Namespace) -> Caller:
    administration = namespace.broker.administration
    namespace.run(lambda: administration.create(TopicDescription(name="T/1")))
    described = SubscriptionDescription(name="Sub")
    namespace.run(lambda: administration.create_subscription("T/1", described))
    properties = {"text": typed("v"), "whole": typed(5), "good": typed(True)}
    for name, wanted in (
        ("By", CorrelationRuleFilter(label="l", properties=properties)),
        ("Sql", SqlFilter("a = @p", {"@p": typed("v")})),
    ):
        rule = RuleDescription(name=name, filter=wanted)
        namespace.run(lambda rule=rule: administration.add_rule("T/1", "Sub", rule))
    return Caller(namespace)


def text_of(call: Caller, path: str) -> str:
    reply = call("GET", path)
    assert reply.status == 200, reply.content
    return reply.content.decode()


def test_ids_have_the_words_that_javascript_splits_at(call: Caller) -> None:
    """`/Subscriptions/` and `/Rules/` in this case, however the request spells them."""
    for path in ("/t/1/subscriptions", "/t/1/SUBSCRIPTIONS/sub"):
        (found,) = re.findall(r"<entry[^>]*><id>([^<]*)</id>", text_of(call, path))
        assert found.partition("?")[0].endswith("/T/1/Subscriptions/Sub")
    listed = re.findall(
        r"<entry[^>]*><id>([^<]*)</id>", text_of(call, "/t/1/subscriptions/sub/rules")
    )
    one = re.findall(
        r"<entry[^>]*><id>([^<]*)</id>", text_of(call, "/t/1/subscriptions/sub/rules/by")
    )
    assert [name.partition("/Rules/")[2].partition("?")[0] for name in listed] == [
        "$Default", "By", "Sql",
    ]  # fmt: skip
    assert one[0].partition("?")[0].endswith("/Rules/By")
    assert all("/Subscriptions/" in name for name in listed + one)


def test_types_of_values_have_a_prefix_of_four_characters(call: Caller) -> None:
    """JavaScript cuts off five characters and takes the rest for the type."""
    schema = "http://www.w3.org/2001/XMLSchema"
    for name, types in (("by", {"string", "long", "boolean"}), ("sql", {"string"})):
        text = text_of(call, f"/t/1/subscriptions/sub/rules/{name}")
        values = re.findall(r"<Value ([^>]*)>", text)
        assert len(values) == len(types)
        found = [
            re.fullmatch(rf'i:type="(\w{{4}}):(\w+)" xmlns:(\w+)="{schema}"', v) for v in values
        ]
        assert {one[2] for one in found if one} == types
        assert all(one and one[1] == one[3] for one in found)
        assert '<Action i:type="EmptyRuleAction"' in text


def test_a_slash_in_a_name_may_be_escaped(call: Caller) -> None:
    """Python escapes it, .NET and JavaScript do not."""
    assert (
        text_of(call, "/T%2F1").partition("<title")[2]
        == (text_of(call, "/T/1").partition("<title")[2])
    )


def test_a_list_without_a_size_is_a_page(call: Caller) -> None:
    """JavaScript asks without `$top`, and may escape the names of what it asks with."""
    for query in ("", "?api-version=2021-05", "?%24top=5&%24skip=0"):
        assert text_of(call, f"/$Resources/topics{query}").count("<entry") == 1
        assert text_of(call, f"/T/1/Subscriptions/{query}").count("<entry") == 1
