"""Predicates over blob tags: the language of `x-ms-if-tags` and of Find Blobs by Tags.

    condition  = conjunction *("OR" conjunction)
    conjunction = term *("AND" term)
    term       = comparison | "(" condition ")"
    comparison = name ("=" | "<>" | ">" | ">=" | "<" | "<=") 'value'

Names are bare words or in double quotes, values in single quotes; order is that of the text.  A
comparison with a tag that is not there is false, whatever its operator.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import eq, ge, gt, le, lt, ne
from typing import Final

text_characters_max: Final = 8192
logical_operators_max: Final = 10
nesting_levels_max: Final = 32
container_name: Final = "@container"

_compare: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "=": eq,
    "<>": ne,
    ">": gt,
    ">=": ge,
    "<": lt,
    "<=": le,
}

_token: Final = re.compile(
    r"""\s*(?:
        (?P<operator>=|<>|>=|<=|>|<)
      | (?P<value>'[^']*')
      | (?P<quoted>"[^"]*")
      | (?P<word>@?[A-Za-z0-9_]+)
      | (?P<paren>[()])
      | (?P<end>\Z)
    )""",
    re.VERBOSE | re.ASCII,
)


class TagSyntaxError(ValueError):
    """The text is no predicate; `position` is where it stopped making sense."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.position = position


@dataclass(frozen=True, slots=True)
class Comparison:
    name: str
    operator: str
    value: str

    def matches(self, tags: Mapping[str, str]) -> bool:
        found = tags.get(self.name)
        return found is not None and _compare[self.operator](found, self.value)


@dataclass(frozen=True, slots=True)
class AllOf:
    terms: tuple["TagPredicate", ...]

    def matches(self, tags: Mapping[str, str]) -> bool:
        return all(term.matches(tags) for term in self.terms)


@dataclass(frozen=True, slots=True)
class AnyOf:
    terms: tuple["TagPredicate", ...]

    def matches(self, tags: Mapping[str, str]) -> bool:
        return any(term.matches(tags) for term in self.terms)


TagPredicate = Comparison | AllOf | AnyOf


@dataclass(frozen=True, slots=True)
class TagSearch:
    """A Find Blobs by Tags expression: comparisons that all must hold, perhaps in one container."""

    comparisons: tuple[Comparison, ...]
    container: str | None

    def matches(self, tags: Mapping[str, str]) -> bool:
        return all(comparison.matches(tags) for comparison in self.comparisons)


def parse_tag_condition(text: str) -> TagPredicate:
    """Read `x-ms-if-tags` or `x-ms-source-if-tags`; raises nothing but `TagSyntaxError`."""
    reader = _Reader(text)
    predicate = _condition(reader, 0)
    reader.finish()
    return predicate


def parse_tag_search(text: str, *, in_account: bool) -> TagSearch:
    """Read a `where` parameter: a conjunction, without `<>`; `@container` only on the account."""
    reader = _Reader(text)
    comparisons: list[Comparison] = []
    container: str | None = None
    while True:
        start = reader.position
        comparison = _comparison(reader, special=in_account)
        if comparison.operator == "<>":
            raise TagSyntaxError("operator not supported here", start)
        if comparison.name != container_name:
            comparisons.append(comparison)
        elif comparison.operator != "=" or container is not None:
            raise TagSyntaxError("one container may be named, with =", start)
        else:
            container = comparison.value
        if not reader.take_word("AND"):
            break
        reader.count_operator()
    reader.finish()
    if not comparisons:
        raise TagSyntaxError("at least one tag must be compared", len(text))
    return TagSearch(tuple(comparisons), container)


class _Reader:
    """Tokens of a text, one looked at ahead."""

    def __init__(self, text: str) -> None:
        if len(text) > text_characters_max:
            raise TagSyntaxError("expression too long", text_characters_max)
        self._text = text
        self._operators = 0
        self.position = 0
        self.kind = ""
        self.token = ""
        self._next = 0
        self.advance()

    def advance(self) -> None:
        found = _token.match(self._text, self._next)
        if found is None or found.lastgroup is None:
            raise TagSyntaxError("unexpected character", self._next)
        self.kind = found.lastgroup
        self.token = found[self.kind]
        self.position = found.start(self.kind)
        self._next = found.end()

    def take_word(self, word: str) -> bool:
        """Step over a keyword, if it comes next."""
        if self.kind != "word" or self.token.upper() != word:
            return False
        self.advance()
        return True

    def take(self, kind: str, token: str | None = None) -> str | None:
        if self.kind != kind or (token is not None and self.token != token):
            return None
        taken = self.token
        self.advance()
        return taken

    def count_operator(self) -> None:
        self._operators += 1
        if self._operators > logical_operators_max:
            raise TagSyntaxError("too many logical operators", self.position)

    def finish(self) -> None:
        if self.kind != "end":
            raise TagSyntaxError("unexpected text after the expression", self.position)


def _condition(reader: _Reader, level: int) -> TagPredicate:
    if level > nesting_levels_max:
        raise TagSyntaxError("nested too deeply", reader.position)
    terms = [_conjunction(reader, level)]
    while reader.take_word("OR"):
        reader.count_operator()
        terms.append(_conjunction(reader, level))
    return terms[0] if len(terms) == 1 else AnyOf(tuple(terms))


def _conjunction(reader: _Reader, level: int) -> TagPredicate:
    terms = [_term(reader, level)]
    while reader.take_word("AND"):
        reader.count_operator()
        terms.append(_term(reader, level))
    return terms[0] if len(terms) == 1 else AllOf(tuple(terms))


def _term(reader: _Reader, level: int) -> TagPredicate:
    if reader.take("paren", "(") is None:
        return _comparison(reader, special=False)
    predicate = _condition(reader, level + 1)
    if reader.take("paren", ")") is None:
        raise TagSyntaxError("missing closing parenthesis", reader.position)
    return predicate


def _comparison(reader: _Reader, *, special: bool) -> Comparison:
    start = reader.position
    name = reader.take("word")
    if name is None:
        quoted = reader.take("quoted")
        if quoted is None:
            raise TagSyntaxError("expected a tag name", start)
        name = quoted[1:-1]
        if not name or name == container_name:
            raise TagSyntaxError("not a tag name", start)
    elif name.startswith("@") and not (special and name == container_name):
        raise TagSyntaxError("not a tag name", start)
    operator = reader.take("operator")
    if operator is None:
        raise TagSyntaxError("expected a comparison operator", reader.position)
    value = reader.take("value")
    if value is None:
        raise TagSyntaxError("expected a value in single quotes", reader.position)
    return Comparison(name, operator, value[1:-1])
