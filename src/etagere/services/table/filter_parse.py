"""`$filter`: text to a tree, once for a query.

Azure: 'Querying tables and entities', constructing filter strings.  From tight to loose:

    primary     ( or )  |  literal  |  property
    comparison  primary [eq|ne|gt|ge|lt|le primary]
    not         not not  |  comparison
    and         not {and not}
    or          and {or and}

So `not` takes the comparison that follows it.  Operators are lower case.
"""

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final, NoReturn

from etagere.base.clock import Timestamp
from etagere.base.errors import Refused
from etagere.kernel.dates import parse_iso
from etagere.services.table.edm import settle_guid

comparisons_max: Final = 250
"""Azure's own text says 15; its service is not so strict, and clients ask for lists of keys."""
depth_max: Final = 64
filter_length_max: Final = 32 * 1024


class Family(Enum):
    """Types that compare with each other."""

    STRING = "string"
    NUMBER = "number"
    BOOLEAN = "boolean"
    DATETIME = "datetime"
    GUID = "guid"
    BINARY = "binary"


class Operator(Enum):
    EQ = "eq"
    NE = "ne"
    GT = "gt"
    GE = "ge"
    LT = "lt"
    LE = "le"


@dataclass(frozen=True, slots=True)
class Property:
    name: str


@dataclass(frozen=True, slots=True)
class Literal:
    """`value` is a str for STRING and GUID, int or float for NUMBER, bool, ticks, or bytes."""

    family: Family
    value: str | int | float | bool | bytes


Operand = Property | Literal


@dataclass(frozen=True, slots=True)
class Compare:
    operator: Operator
    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True)
class Truth:
    """A property, or `true` or `false`, that stands alone as a condition."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class Not:
    condition: "Condition"


@dataclass(frozen=True, slots=True)
class And:
    conditions: "tuple[Condition, ...]"


@dataclass(frozen=True, slots=True)
class Or:
    conditions: "tuple[Condition, ...]"


Condition = Compare | Truth | Not | And | Or

_token_form: Final = re.compile(
    r"""(?P<space>[ \t\r\n]+)
    |(?P<open>\()
    |(?P<close>\))
    |(?P<comma>,)
    |(?P<datetime>datetime'(?P<datetime_text>[^']*)')
    |(?P<guid>guid'(?P<guid_text>[^']*)')
    |(?P<binary>(?:binary|X)'(?P<binary_text>[^']*)')
    |(?P<string>'(?P<string_text>(?:[^']|'')*)')
    |(?P<number>-?[0-9]{1,400}(?:\.[0-9]{1,400})?(?:[eE][+-]?[0-9]{1,4})?(?P<suffix>[LlDdFf]?)(?![\w.]))
    |(?P<infinity>-Infinity(?!\w))
    |(?P<word>[^\W\d]\w*)""",
    re.VERBOSE,
)

_surrogate: Final = re.compile(r"[\ud800-\udfff]")

_operators: Final = {operator.value: operator for operator in Operator}
_arithmetic: Final = frozenset({"add", "sub", "mul", "div", "mod"})
_reserved: Final = frozenset({"and", "or", "not", *_operators, *_arithmetic})
_named_literals: Final = {
    "true": Literal(Family.BOOLEAN, value=True),
    "false": Literal(Family.BOOLEAN, value=False),
    "NaN": Literal(Family.NUMBER, float("nan")),
    "Infinity": Literal(Family.NUMBER, float("inf")),
    "INF": Literal(Family.NUMBER, float("inf")),
}
_minus_infinity: Final = Literal(Family.NUMBER, float("-inf"))
_int64_min: Final = -(2**63)
_int64_max: Final = 2**63 - 1
_int64_chars_max: Final = 20


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    position: int


def parse(text: str) -> Condition:
    """The tree of a filter; Refused("InvalidInput") with the position of what is wrong in it."""
    if len(text) > filter_length_max:
        raise Refused("InvalidInput", message="The filter is too long.")
    surrogate = _surrogate.search(text)
    if surrogate is not None:
        _fail("Text that is not Unicode", surrogate.start())
    return _Parser(_tokens(text)).whole()


def _tokens(text: str) -> list[_Token]:
    tokens = []
    position = 0
    while position < len(text):
        found = _token_form.match(text, position)
        if found is None:
            _fail("Syntax error", position)
        # The named groups inside a token's own group are its parts, so the first that matched
        # is the kind.
        kind = _kind_of(found)
        if kind != "space":
            tokens.append(_Token(kind, found[0], position))
        position = found.end()
    tokens.append(_Token("end", "", position))
    return tokens


_kinds: Final = (
    "word", "space", "string", "number", "open", "close", "datetime", "guid", "binary", "infinity",
    "comma",
)  # fmt: skip


def _kind_of(found: re.Match[str]) -> str:
    return next(kind for kind in _kinds if found[kind] is not None)


def _fail(reason: str, position: int) -> NoReturn:
    raise Refused("InvalidInput", message=f"{reason} at position {position}.")


class _Parser:
    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self._comparisons = 0

    def whole(self) -> Condition:
        condition = self._or()
        token = self._peek()
        if token.kind != "end":
            if token.text in _arithmetic:
                raise Refused("NotImplemented")
            _fail("Syntax error", token.position)
        return condition

    def _peek(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _is_word(self, word: str) -> bool:
        token = self._tokens[self._at]
        return token.kind == "word" and token.text == word

    def _or(self) -> Condition:
        conditions = [self._and()]
        while self._is_word("or"):
            self._at += 1
            conditions.append(self._and())
        return conditions[0] if len(conditions) == 1 else Or(tuple(conditions))

    def _and(self) -> Condition:
        conditions = [self._not()]
        while self._is_word("and"):
            self._at += 1
            conditions.append(self._not())
        return conditions[0] if len(conditions) == 1 else And(tuple(conditions))

    def _not(self) -> Condition:
        negated = False
        while self._is_word("not"):
            self._at += 1
            negated = not negated
        condition = self._comparison()
        return Not(condition) if negated else condition

    def _comparison(self) -> Condition:
        begin = self._at
        left = self._primary()
        token = self._peek()
        if token.kind == "word" and token.text in _operators:
            self._at += 1
            if not isinstance(left, Property | Literal):
                _fail("A condition cannot be compared", token.position)
            right_position = self._peek().position
            right = self._primary()
            if not isinstance(right, Property | Literal):
                _fail("A condition cannot be compared", right_position)
            self._comparisons += 1
            self._check_count(token.position)
            return Compare(_operators[token.text], left, right)
        if token.kind == "word" and token.text in _arithmetic:
            raise Refused("NotImplemented")
        # Alone between parentheses it may be an operand yet: `Age gt (5)`.
        enclosed = token.kind == "close" and self._tokens[begin - 1].kind == "open"
        if isinstance(left, Literal) and left.family is not Family.BOOLEAN and not enclosed:
            _fail("An operator is missing", token.position)
        if isinstance(left, Property | Literal) and token.kind != "close":
            self._comparisons += 1
            self._check_count(token.position)
            return Truth(left)
        return _as_condition(left)

    def _check_count(self, position: int) -> None:
        if self._comparisons > comparisons_max:
            _fail("The filter has too many comparisons", position)

    def _primary(self) -> Condition | Operand:
        token = self._take()
        match token.kind:
            case "open":
                return self._parenthesised(token)
            case "word":
                return self._word(token)
            case _:
                return _literal(token)

    def _parenthesised(self, opening: _Token) -> Condition | Operand:
        self._depth += 1
        if self._depth > depth_max:
            _fail("The filter is nested too deeply", opening.position)
        inner = self._or()
        token = self._take()
        if token.kind != "close":
            if token.text in _arithmetic:
                raise Refused("NotImplemented")
            _fail("')' expected", token.position)
        self._depth -= 1
        # `(Age) gt 5`: parentheses around an operand leave it one.
        return inner.operand if isinstance(inner, Truth) else inner

    def _word(self, token: _Token) -> Operand:
        named = _named_literals.get(token.text)
        if named is not None:
            return named
        if token.text in _reserved:
            _fail("Syntax error", token.position)
        if self._peek().kind == "open":
            raise Refused("NotImplemented")  # a function: startswith(..), substringof(..)
        return Property(token.text)


def _as_condition(node: Condition | Operand) -> Condition:
    return Truth(node) if isinstance(node, Property | Literal) else node


def _literal(token: _Token) -> Literal:
    text = token.text
    match token.kind:
        case "string":
            return Literal(Family.STRING, text[1:-1].replace("''", "'"))
        case "number":
            return _number(token)
        case "infinity":
            return _minus_infinity
        case "datetime":
            moment: Timestamp | None = parse_iso(text[len("datetime'") : -1])
            if moment is None:
                _fail("A date is not valid", token.position)
            return Literal(Family.DATETIME, moment)
        case "guid":
            try:
                return Literal(Family.GUID, settle_guid(text[len("guid'") : -1]))
            except Refused:
                _fail("A GUID is not valid", token.position)
        case "binary":
            digits = text[text.index("'") + 1 : -1]
            try:
                if not digits.isalnum() and digits:  # fromhex would let spaces through
                    _fail("Binary is not valid", token.position)
                return Literal(Family.BINARY, bytes.fromhex(digits))
            except ValueError:
                _fail("Binary is not valid", token.position)
        case "end":
            _fail("The filter ends too early", token.position)
        case _:
            _fail("Syntax error", token.position)


def _number(token: _Token) -> Literal:
    text = token.text
    suffix = text[-1].lower()
    digits = text[:-1] if suffix in "ldf" else text
    integral = digits.lstrip("-").isdigit()
    if suffix == "l" and not integral:
        _fail("A number is not valid", token.position)
    if integral and suffix not in "df":
        if len(digits) > _int64_chars_max:
            _fail("A number is too large", token.position)
        value = int(digits)
        if not _int64_min <= value <= _int64_max:
            _fail("A number is too large", token.position)
        return Literal(Family.NUMBER, value)
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        _fail("A number is too large", token.position)
    return Literal(Family.NUMBER, number)
