import pytest
from hypothesis import given
from hypothesis import strategies as st

from etagere.kernel.tag_predicate import (
    AllOf,
    AnyOf,
    Comparison,
    TagPredicate,
    TagSearch,
    TagSyntaxError,
    logical_operators_max,
    nesting_levels_max,
    parse_tag_condition,
    parse_tag_search,
    text_characters_max,
)

tags = {"colour": "blue", "size": "20", "with space": "yes", "Empty": ""}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("colour = 'blue'", True),
        ("colour='blue'", True),
        ("\"colour\" = 'blue'", True),
        ("\"with space\" = 'yes'", True),
        ("colour = 'red'", False),
        ("Colour = 'blue'", False),
        ("colour <> 'red'", True),
        ("colour <> 'blue'", False),
        ("size > '100'", True),
        ("size > '20'", False),
        ("size >= '20'", True),
        ("size < '3'", True),
        ("size <= '20'", True),
        ("size <= '1'", False),
        ("Empty = ''", True),
        ("absent = ''", False),
        ("absent <> 'x'", False),
        ("absent < 'x'", False),
        ("colour = 'red' OR size = '20'", True),
        ("colour = 'red' or size = '20'", True),
        ("colour = 'red' AND size = '20'", False),
        ("colour = 'blue' aNd size = '20'", True),
        # AND binds tighter than OR.
        ("colour = 'blue' OR colour = 'red' AND size = '1'", True),
        ("(colour = 'blue' OR colour = 'red') AND size = '1'", False),
        ("((colour = 'blue'))", True),
    ],
)
def test_conditions(text: str, expected: bool):
    assert parse_tag_condition(text).matches(tags) is expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "colour",
        "colour =",
        "colour = blue",
        'colour = "blue"',
        "colour == 'blue'",
        "colour != 'blue'",
        "= 'blue'",
        "'colour' = 'blue'",
        "colour = 'blue",
        "(colour = 'blue'",
        "colour = 'blue')",
        "colour = 'blue' AND",
        "AND colour = 'blue'",
        "colour = 'blue' size = '1'",
        "colour = 'blue' XOR size = '1'",
        "colour = 'blue' AND OR size = '1'",
        "NOT colour = 'blue'",
        "()",
        "@container = 'c'",
        "\"@container\" = 'c'",
        "\"\" = 'c'",
        "couleur·x = 'c'",
    ],
)
def test_what_is_no_condition(text: str):
    with pytest.raises(TagSyntaxError):
        parse_tag_condition(text)


def test_operators_are_counted():
    def chain(operators: int) -> str:
        return " AND ".join(["a = 'b'"] * (operators + 1))

    parse_tag_condition(chain(logical_operators_max))
    with pytest.raises(TagSyntaxError):
        parse_tag_condition(chain(logical_operators_max + 1))
    mixed = chain(logical_operators_max).replace("AND", "OR", 5)
    parse_tag_condition(mixed)
    with pytest.raises(TagSyntaxError):
        parse_tag_condition(f"({mixed}) OR a = 'b'")


def test_depth_and_length_are_bounded():
    def nested(levels: int) -> str:
        return "(" * levels + "a = 'b'" + ")" * levels

    parse_tag_condition(nested(nesting_levels_max))
    for levels in (nesting_levels_max + 1, 4000):
        with pytest.raises(TagSyntaxError):
            parse_tag_condition(nested(levels))
    frame = "a = ''"
    parse_tag_condition(f"a = '{'x' * (text_characters_max - len(frame))}'")
    with pytest.raises(TagSyntaxError):
        parse_tag_condition(f"a = '{'x' * (text_characters_max - len(frame) + 1)}'")


def test_an_error_says_where():
    with pytest.raises(TagSyntaxError) as error:
        parse_tag_condition("colour = 'blue' AND size ~ '1'")
    assert error.value.position == 24


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 'b'", TagSearch((Comparison("a", "=", "b"),), None)),
        (
            "@container = 'c' AND a >= 'b' and \"x y\" < 'z'",
            TagSearch((Comparison("a", ">=", "b"), Comparison("x y", "<", "z")), "c"),
        ),
        ("a = 'b' AND @container='c'", TagSearch((Comparison("a", "=", "b"),), "c")),
    ],
)
def test_searches(text: str, expected: TagSearch):
    assert parse_tag_search(text, in_account=True) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a <> 'b'",
        "a = 'b' OR a = 'c'",
        "(a = 'b')",
        "@container = 'c'",
        "@container > 'c' AND a = 'b'",
        "@container = 'c' AND @container = 'd' AND a = 'b'",
        "@other = 'c' AND a = 'b'",
        "a = 'b' AND",
        "a = 'b' c = 'd'",
        " AND ".join(["a = 'b'"] * (logical_operators_max + 2)),
    ],
)
def test_what_is_no_search(text: str):
    with pytest.raises(TagSyntaxError):
        parse_tag_search(text, in_account=True)


def test_a_search_in_a_container_names_none():
    with pytest.raises(TagSyntaxError):
        parse_tag_search("@container = 'c' AND a = 'b'", in_account=False)


def test_a_search_matches_all_of_its_comparisons():
    search = parse_tag_search("colour >= 'a' AND size = '20'", in_account=False)
    assert search.matches(tags)
    assert not search.matches({"colour": "blue"})
    assert not search.matches({"colour": "blue", "size": "21"})


names = st.sampled_from(["a", "b", "with space", "AND", "0x"])
values = st.text(alphabet="abz09 +-./:=_", max_size=3)
comparisons = st.builds(
    Comparison, names, st.sampled_from(["=", "<>", ">", ">=", "<", "<="]), values
)
predicates: st.SearchStrategy[TagPredicate] = st.recursive(
    comparisons,
    lambda inner: st.builds(
        lambda kind, terms: kind(tuple(terms)),
        st.sampled_from([AllOf, AnyOf]),
        st.lists(inner, min_size=2, max_size=3),
    ),
    max_leaves=8,
)


def spell(predicate: TagPredicate) -> str:
    if isinstance(predicate, Comparison):
        return f"\"{predicate.name}\" {predicate.operator} '{predicate.value}'"
    word = " AND " if isinstance(predicate, AllOf) else " OR "
    return word.join(f"({spell(term)})" for term in predicate.terms)


def reading(predicate: TagPredicate, found: dict[str, str]) -> bool:
    """The meaning once more, by asking Python to evaluate it."""
    if isinstance(predicate, Comparison):
        if predicate.name not in found:
            return False
        operator = {"=": "==", "<>": "!="}.get(predicate.operator, predicate.operator)
        return bool(eval(f"{found[predicate.name]!r} {operator} {predicate.value!r}"))
    results = [reading(term, found) for term in predicate.terms]
    return all(results) if isinstance(predicate, AllOf) else any(results)


@given(predicates, st.dictionaries(names, values))
def test_what_is_spelt_is_read_back(predicate: TagPredicate, found: dict[str, str]):
    parsed = parse_tag_condition(spell(predicate))
    assert parsed == predicate
    assert parsed.matches(found) is reading(predicate, found)


fragments = st.lists(
    st.sampled_from(
        ["a", "AND", "or", "(", ")", "=", "<>", "'x'", '"n"', "@container", " ", "'", '"', "\x00"]
    ),
    max_size=30,
).map(" ".join)


@given(st.one_of(st.text(max_size=100), fragments))
def test_any_text_is_a_predicate_or_a_syntax_error(text: str):
    for parse in (
        parse_tag_condition,
        lambda text: parse_tag_search(text, in_account=True),
        lambda text: parse_tag_search(text, in_account=False),
    ):
        position = 0
        try:
            parse(text).matches(tags)
        except TagSyntaxError as error:
            position = error.position
        assert 0 <= position <= len(text)
