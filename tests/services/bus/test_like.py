"""LIKE beside a matcher that is plainly right and plainly slow, and its own worst cases."""

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etagere.services.bus.like import MalformedPattern, Pattern


def naive(pattern, escape, text):
    """By the definition: try every split at every %."""
    symbols = []
    characters = iter(pattern)
    for char in characters:
        if char == escape:
            symbols.append(("is", next(characters)))
        else:
            symbols.append(
                ("any", "") if char == "_" else ("run", "") if char == "%" else ("is", char)
            )

    @cache
    def match(i, j):
        if i == len(symbols):
            return j == len(text)
        kind, char = symbols[i]
        if kind == "run":
            return match(i + 1, j) or (j < len(text) and match(i, j + 1))
        return j < len(text) and (kind == "any" or text[j] == char) and match(i + 1, j + 1)

    return match(0, 0)


few = st.text(alphabet="ab%_\\", max_size=12)


@given(few, st.sampled_from([None, "\\", "a", "%", "_"]), few)
def test_agrees_with_the_definition(pattern, escape, text):
    try:
        expected = naive(pattern, escape, text)
    except (StopIteration, RuntimeError):
        with pytest.raises(MalformedPattern):
            Pattern(pattern, escape)
        return
    assert Pattern(pattern, escape).matches(text) is expected


@pytest.mark.parametrize(
    ("pattern", "escape", "text", "expected"),
    [
        ("", None, "", True),
        ("", None, "a", False),
        ("%", None, "", True),
        ("_", None, "", False),
        ("a%", None, "abc", True),
        ("%c", None, "abc", True),
        ("a%a", None, "a", False),
        ("A%", None, "abc", False),
        ("100!%", "!", "100%", True),
        ("100!%", "!", "1000", False),
        ("!!%", "!", "!x", True),
        ("_%_", None, "\n\U0001f600", True),
        ("%a_c%e%", None, "xxabcdxe", True),
        (".*", None, "anything", False),
    ],
)
def test_cases(pattern, escape, text, expected):
    assert Pattern(pattern, escape).matches(text) is expected


def test_many_runs_over_a_long_text_end():
    # Backtracking matchers need longer than the age of the universe for this.
    text = "a" * 32_000
    assert not Pattern("%a" * 500 + "b").matches(text)
    assert not Pattern("%a_a" * 200 + "%b%").matches(text)
    assert Pattern("%a_a" * 200 + "%").matches(text)
