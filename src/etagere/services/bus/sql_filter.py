"""Parses filter expressions to trees: operator precedence, bounded in length and depth.

From tight to loose: unary + -, * / %, + -, comparisons with IN LIKE IS, NOT, AND, OR
(Service Bus, SQL filter syntax).
"""

from collections.abc import Mapping
from typing import Final

from etagere.services.bus import errors, sql_tree
from etagere.services.bus.sql_lexer import (
    Kind,
    Token,
    expression_chars_max,
    integer_max,
    malformed,
    tokens_of,
)
from etagere.services.bus.sql_tree import Arithmetic, Comparison, Scope, Tree

__all__ = ["Parser", "expression_chars_max", "nesting_max", "parse_filter"]

nesting_max: Final = 64
"""Parentheses, functions and NOTs inside one another: the parser and the evaluator recurse."""

_loosest: Final = 0
_or: Final = 1
_and: Final = 2
_not: Final = 3
_comparing: Final = 4
_adding: Final = 5
_multiplying: Final = 6
_unary: Final = 7

_comparisons: Final[Mapping[str | int | float, Comparison]] = {
    "=": Comparison.equal,
    "<>": Comparison.unequal,
    "!=": Comparison.unequal,
    "<": Comparison.less,
    "<=": Comparison.less_or_equal,
    ">": Comparison.greater,
    ">=": Comparison.greater_or_equal,
}
_calculations: Final[Mapping[str | int | float, tuple[int, Arithmetic]]] = {
    "+": (_adding, Arithmetic.plus),
    "-": (_adding, Arithmetic.minus),
    "*": (_multiplying, Arithmetic.times),
    "/": (_multiplying, Arithmetic.divide),
    "%": (_multiplying, Arithmetic.modulo),
}

no_parameters: Final[Mapping[str, sql_tree.Value]] = {}


def parse_filter(text: str, parameters: Mapping[str, sql_tree.Value] = no_parameters) -> Tree:
    """The tree of a filter; refused with `com.microsoft:argument-error` if it is not one."""
    parser = Parser(text, parameters)
    tree = parser.predicate()
    parser.expect_end()
    return tree


class Parser:
    """Reads one expression after another from one text; actions share it."""

    def __init__(self, text: str, parameters: Mapping[str, sql_tree.Value] = no_parameters) -> None:
        self._tokens = tokens_of(text)
        self._at = 0
        self._nesting = 0
        self._parameters = {
            (name if name.startswith("@") else "@" + name).casefold(): value
            for name, value in parameters.items()
        }

    # ---- words

    @property
    def token(self) -> Token:
        return self._tokens[self._at]

    def advance(self) -> Token:
        token = self._tokens[self._at]
        if token.kind is not Kind.end:
            self._at += 1
        return token

    def take_sign(self, text: str) -> bool:
        if self.token.is_sign(text):
            self._at += 1
            return True
        return False

    def take_keyword(self, word: str) -> bool:
        if self.token.is_keyword(word):
            self._at += 1
            return True
        return False

    def expect_sign(self, text: str) -> None:
        if not self.take_sign(text):
            raise malformed(f"'{text}' is expected", self.token.at)

    def expect_end(self) -> None:
        if self.token.kind is not Kind.end:
            raise malformed("the expression should end", self.token.at)

    # ---- grammar

    def predicate(self) -> Tree:
        at = self.token.at
        tree = self._climb(_loosest)
        _require_predicate(tree, at)
        return tree

    def expression(self) -> Tree:
        """A value: what stands to the right of SET name =."""
        at = self.token.at
        tree = self._climb(_loosest)
        if isinstance(tree, sql_tree.predicates):
            raise malformed("a value is expected, not a condition", at)
        return tree

    def property(self) -> sql_tree.Property:
        """`name`, `user.name` or `sys.name`."""
        token = self.advance()
        if token.kind is not Kind.word:
            raise malformed("a property is expected", token.at)
        return self._property_from(token)

    def _climb(self, floor: int) -> Tree:
        """An operand and every operator behind it that binds tighter than `floor`."""
        self._nesting += 1
        if self._nesting > nesting_max:
            raise errors.argument(
                "SqlExpression", f"The expression is nested deeper than {nesting_max} levels."
            )
        left_at = self.token.at
        left = self._operand()
        while True:
            token = self.token
            if token.kind is Kind.sign and token.value in _calculations:
                strength, calculation = _calculations[token.value]
                if strength <= floor:
                    break
                self._at += 1
                right_at = self.token.at
                right = self._climb(strength)
                _require_value(left, left_at)
                _require_value(right, right_at)
                left = sql_tree.Calculate(calculation, left, right)
            elif token.is_keyword("OR") and floor < _or:
                left = sql_tree.Or(self._chain("OR", _or, left, left_at))
            elif token.is_keyword("AND") and floor < _and:
                left = sql_tree.And(self._chain("AND", _and, left, left_at))
            elif floor < _comparing and self._compares(token):
                _require_value(left, left_at)
                left = self._comparison(left)
            else:
                break
        self._nesting -= 1
        return left

    def _chain(self, word: str, strength: int, first: Tree, first_at: int) -> tuple[Tree, ...]:
        """The operands of `a AND b AND c`, flat, so that a long chain is not a deep tree."""
        _require_predicate(first, first_at)
        operands = [first]
        while self.take_keyword(word):
            at = self.token.at
            operands.append(self._climb(strength))
            _require_predicate(operands[-1], at)
        return tuple(operands)

    @staticmethod
    def _compares(token: Token) -> bool:
        if token.kind is Kind.sign:
            return token.value in _comparisons
        return token.kind is Kind.keyword and token.value in ("IS", "IN", "LIKE", "NOT")

    def _comparison(self, left: Tree) -> Tree:
        token = self.advance()
        if token.kind is Kind.sign:
            right = self._value(_comparing)
            return sql_tree.Compare(_comparisons[token.value], left, right)
        if token.is_keyword("IS"):
            negated = self.take_keyword("NOT")
            if not self.take_keyword("NULL"):
                raise malformed("NULL is expected", self.token.at)
            return sql_tree.IsNull(left, negated)
        negated = token.is_keyword("NOT")
        if negated:
            token = self.advance()
        if token.is_keyword("IN"):
            self.expect_sign("(")
            items = [self._value(_loosest)]
            while self.take_sign(","):
                items.append(self._value(_loosest))
            self.expect_sign(")")
            return sql_tree.In(left, tuple(items), negated)
        if token.is_keyword("LIKE"):
            pattern = self._value(_comparing)
            escape = self._escape() if self.take_keyword("ESCAPE") else None
            return sql_tree.Like(left, pattern, escape, negated)
        raise malformed("IN or LIKE is expected", token.at)

    def _escape(self) -> Tree:
        at = self.token.at
        escape = self._value(_comparing)
        if isinstance(escape, sql_tree.Constant) and not (
            isinstance(escape.value, str) and len(escape.value) == 1
        ):
            raise malformed("ESCAPE takes a single character", at)
        return escape

    def _value(self, floor: int) -> Tree:
        at = self.token.at
        tree = self._climb(floor)
        _require_value(tree, at)
        return tree

    def _operand(self) -> Tree:
        token = self.advance()
        match token.kind:
            case Kind.constant:
                if token.value == integer_max and isinstance(token.value, int):
                    raise malformed("an integer beyond 64 bits", token.at)
                return sql_tree.Constant(token.value)
            case Kind.parameter:
                return self._parameter(token)
            case Kind.word:
                if self.token.is_sign("("):
                    return self._function(token)
                return self._property_from(token)
            case Kind.keyword:
                return self._keyword(token)
            case Kind.sign:
                return self._sign(token)
            case Kind.end:
                raise malformed("the expression ends too early", token.at)

    def _keyword(self, token: Token) -> Tree:
        match token.value:
            case "TRUE":
                return sql_tree.Constant(value=True)
            case "FALSE":
                return sql_tree.Constant(value=False)
            case "NULL":
                return sql_tree.Constant(None)
            case "NOT":
                at = self.token.at
                operand = self._climb(_not)
                _require_predicate(operand, at)
                return sql_tree.Not(operand)
            case "EXISTS":
                self.expect_sign("(")
                subject = self.property()
                self.expect_sign(")")
                return sql_tree.Exists(subject)
            case _:
                raise malformed(f"{token.value} is out of place", token.at)

    def _sign(self, token: Token) -> Tree:
        if token.value == "(":
            inner = self._climb(_loosest)
            self.expect_sign(")")
            return inner
        if token.value == "-":
            if self.token.kind is Kind.constant and self.token.value == integer_max:
                self._at += 1
                return sql_tree.Constant(-integer_max)
            return sql_tree.Negative(self._value(_unary))
        if token.value == "+":
            return sql_tree.Positive(self._value(_unary))
        raise malformed(f"'{token.value}' is out of place", token.at)

    def _parameter(self, token: Token) -> Tree:
        name = str(token.value).casefold()
        if name not in self._parameters:
            raise malformed(f"no parameter {token.value} is given", token.at)
        return sql_tree.Constant(self._parameters[name])

    def _function(self, token: Token) -> Tree:
        self.expect_sign("(")
        name = str(token.value).casefold()
        if name == "newid":
            self.expect_sign(")")
            return sql_tree.NewId()
        if name in ("property", "p"):
            tree = sql_tree.PropertyNamed(self._value(_loosest))
            self.expect_sign(")")
            return tree
        raise malformed(f"there is no function '{token.value}'", token.at)

    def _property_from(self, token: Token) -> sql_tree.Property:
        if not self.take_sign("."):
            return sql_tree.Property(Scope.user, str(token.value))
        scope = str(token.value).casefold()
        name = self.advance()
        if name.kind is not Kind.word:
            raise malformed("a property's name is expected", name.at)
        if scope not in ("user", "sys"):
            raise malformed("the scope of a property is user or sys", token.at)
        return sql_tree.Property(Scope(scope), str(name.value))


def _require_predicate(tree: Tree, at: int) -> None:
    if not sql_tree.may_be_predicate(tree):
        raise malformed("a condition is expected, not a value", at)


def _require_value(tree: Tree, at: int) -> None:
    if isinstance(tree, sql_tree.predicates):
        raise malformed("a value is expected, not a condition", at)
