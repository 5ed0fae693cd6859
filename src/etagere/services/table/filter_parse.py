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
from typing import Final, NamedTuple, NoReturn

from etagere.base.clock import Timestamp
from etagere.base.errors import Refused
from etagere.kernel.dates import parse_iso
from etagere.services.table.edm import settle_guid

comparisons_max: Final = 250
"""Azure's own text says 15; its service is not so strict, and clients ask for lists of keys."""
depth_max: Final = 128
"""Clients that join conditions two by two, such as a hundred keys, put each pair between
parentheses.  What walks over a tree calls itself three times for a level at most."""
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
    |(?P<datetime>datetime'[^']*')
    |(?P<guid>guid'[^']*')
    |(?P<binary>(?:binary|X)'[^']*')
    |(?P<string>'(?:[^']|'')*')
    |(?P<number>-?[0-9]{1,400}(?:\.[0-9]{1,400})?(?:[eE][+-]?[0-9]{1,4})?[LlDdFf]?(?![\w.]))
    |(?P<infinity>-Infinity(?!\w))
    |(?P<word>[^\W\d]\w*)""",
    re.VERBOSE,
)

_surrogate: Final = re.compile(r"[\ud800-\udfff]")

_operators: Final = {operator.value: operator for operator in Operator}
_arithmetic: Final = frozenset({"add", "sub", "mul", "div", "mod"})
_not, _and, _or = "not", "and", "or"
_loosest: Final = 1
_bindings: Final = {_or: _loosest, _and: 2, _not: 3, **dict.fromkeys(_operators, 4)}
"""The higher, the tighter."""
_reserved: Final = frozenset({*_bindings, *_arithmetic})
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


class _Token(NamedTuple):
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
        kind = found.lastgroup
        assert kind is not None
        if kind != "space":
            tokens.append(_Token(kind, found[0], position))
        position = found.end()
    tokens.append(_Token("end", "", position))
    return tokens


def _fail(reason: str, position: int) -> NoReturn:
    raise Refused("InvalidInput", message=f"{reason} at position {position}.")


class _Parser:
    """Operands and operators on stacks of their own, so that no nesting is too deep to follow."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._nodes: list[tuple[Condition | Operand, int]] = []
        """What was read so far, each with its position."""
        self._pending: list[_Token] = []
        """Operators that wait for what follows them, and parentheses that are open."""
        self._depth = 0
        self._comparisons = 0

    def whole(self) -> Condition:
        begins = True
        for index, token in enumerate(self._tokens):
            begins = self._begin(token, index) if begins else self._go_on(token)
        return self._condition(self._nodes[0][0], self._tokens[-1].position)

    def _begin(self, token: _Token, index: int) -> bool:
        """Take a token where an operand has to be; whether one still has to."""
        if token.kind == "open":
            self._depth += 1
            if self._depth > depth_max:
                _fail("The filter is nested too deeply", token.position)
            self._pending.append(token)
            return True
        if token.kind == "word" and token.text == _not:
            if self._pending and self._pending[-1].text in _operators:
                _fail("A condition cannot be compared", token.position)
            self._pending.append(token)
            return True
        if token.kind == "word":
            calls = self._tokens[index + 1].kind == "open"
            self._nodes.append((_named(token, calls=calls), token.position))
        else:
            self._nodes.append((_literal(token), token.position))
        return False

    def _go_on(self, token: _Token) -> bool:
        """Take a token behind an operand; whether another operand has to follow."""
        if token.kind == "word" and token.text in _bindings and token.text != _not:
            if token.text in _operators and not self._is_comparable():
                _fail("A condition cannot be compared", token.position)
            self._settle(_bindings[token.text], token.position)
            self._pending.append(token)
            return True
        if token.kind == "word" and token.text in _arithmetic:
            raise Refused("NotImplemented")
        if token.kind not in ("close", "end") or (token.kind == "close" and not self._depth):
            _fail("')' expected" if self._depth else "Syntax error", token.position)
        self._settle(_loosest, token.position)
        if token.kind == "close":
            self._pending.pop()
            self._depth -= 1
        elif self._depth:
            _fail("')' expected", token.position)
        return False

    def _is_comparable(self) -> bool:
        """Whether what was read last is an operand, and of no comparison yet."""
        compared = bool(self._pending) and self._pending[-1].text in _operators
        return not compared and isinstance(self._nodes[-1][0], Property | Literal)

    def _settle(self, binding: int, at: int) -> None:
        """Give operators that bind at least so tightly what stands around them."""
        while self._pending and self._pending[-1].kind != "open":
            operator = self._pending[-1]
            if _bindings[operator.text] < binding:
                return
            self._pending.pop()
            right, position = self._nodes.pop()
            if operator.text == _not:
                node, begin = _negated(self._condition(right, at)), operator.position
            else:
                left, begin = self._nodes.pop()
                if operator.text in _operators:
                    node = self._compared(operator, left, right, position)
                else:
                    kind = And if operator.text == _and else Or
                    node = _joined(kind, self._condition(left, at), self._condition(right, at))
            self._nodes.append((node, begin))

    def _compared(
        self,
        operator: _Token,
        left: Condition | Operand,
        right: Condition | Operand,
        right_position: int,
    ) -> Condition:
        assert isinstance(left, Property | Literal)
        if not isinstance(right, Property | Literal):
            _fail("A condition cannot be compared", right_position)
        self._count(operator.position)
        return Compare(_operators[operator.text], left, right)

    def _condition(self, node: Condition | Operand, at: int) -> Condition:
        """What stands where there has to be a condition."""
        if not isinstance(node, Property | Literal):
            return node
        if isinstance(node, Literal) and node.family is not Family.BOOLEAN:
            _fail("An operator is missing", at)
        self._count(at)
        return Truth(node)

    def _count(self, position: int) -> None:
        self._comparisons += 1
        if self._comparisons > comparisons_max:
            _fail("The filter has too many comparisons", position)


def _named(token: _Token, *, calls: bool) -> Operand:
    found = _named_literals.get(token.text)
    if found is not None:
        return found
    if token.text in _reserved:
        _fail("Syntax error", token.position)
    if calls:
        raise Refused("NotImplemented")  # a function: startswith(..), substringof(..)
    return Property(token.text)


def _negated(condition: Condition) -> Condition:
    return condition.condition if isinstance(condition, Not) else Not(condition)


def _joined(kind: type[And] | type[Or], left: Condition, right: Condition) -> Condition:
    """`((a or b) or c) or d`, as clients join conditions two by two, as one list of four."""
    return kind(
        (
            *(left.conditions if isinstance(left, kind) else (left,)),
            *(right.conditions if isinstance(right, kind) else (right,)),
        )
    )


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
