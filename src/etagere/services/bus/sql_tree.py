"""Trees of rule expressions, as `sql_filter` parses them and `sql_evaluate` runs them."""

from enum import Enum
from typing import Final

import msgspec

Value = object
"""What an expression is worth: None (NULL, missing, unknown), bool, int, float, str, or a value
that is only compared with its own kind (bytes, UUID, datetime, timedelta)."""


class Scope(Enum):
    user = "user"
    sys = "sys"


class Comparison(Enum):
    equal = "="
    unequal = "<>"
    less = "<"
    less_or_equal = "<="
    greater = ">"
    greater_or_equal = ">="


class Arithmetic(Enum):
    plus = "+"
    minus = "-"
    times = "*"
    divide = "/"
    modulo = "%"


class Constant(msgspec.Struct, frozen=True):
    value: Value


class Property(msgspec.Struct, frozen=True):
    scope: Scope
    name: str


class PropertyNamed(msgspec.Struct, frozen=True):
    """`property(name)`: the user property whose name the operand gives."""

    name: "Tree"


class NewId(msgspec.Struct, frozen=True):
    pass


class Negative(msgspec.Struct, frozen=True):
    operand: "Tree"


class Positive(msgspec.Struct, frozen=True):
    operand: "Tree"


class Calculate(msgspec.Struct, frozen=True):
    operator: Arithmetic
    left: "Tree"
    right: "Tree"


class Compare(msgspec.Struct, frozen=True):
    operator: Comparison
    left: "Tree"
    right: "Tree"


class IsNull(msgspec.Struct, frozen=True):
    operand: "Tree"
    negated: bool


class In(msgspec.Struct, frozen=True):
    operand: "Tree"
    items: tuple["Tree", ...]
    negated: bool


class Like(msgspec.Struct, frozen=True):
    operand: "Tree"
    pattern: "Tree"
    escape: "Tree | None"
    negated: bool


class Exists(msgspec.Struct, frozen=True):
    property: Property


class Not(msgspec.Struct, frozen=True):
    operand: "Tree"


class And(msgspec.Struct, frozen=True):
    operands: tuple["Tree", ...]


class Or(msgspec.Struct, frozen=True):
    operands: tuple["Tree", ...]


Tree = (
    Constant
    | Property
    | PropertyNamed
    | NewId
    | Negative
    | Positive
    | Calculate
    | Compare
    | IsNull
    | In
    | Like
    | Exists
    | Not
    | And
    | Or
)

predicates: Final = (Compare, IsNull, In, Like, Exists, Not, And, Or)
"""Trees that are true, false or unknown, and nothing else."""


def may_be_predicate(tree: Tree) -> bool:
    """May it stand where a truth value is wanted?  A property may hold one."""
    if isinstance(tree, Constant):
        return tree.value is None or isinstance(tree.value, bool)
    return isinstance(tree, (*predicates, Property, PropertyNamed))
