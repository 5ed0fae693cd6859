"""Rule actions: SET and REMOVE statements that change a subscription's copy of a message.

Statements run left to right, each seeing what those before it did (Service Bus, SQL actions).
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final
from uuid import UUID

import msgspec

from etagere.services.bus import errors, sql_tree
from etagere.services.bus.sql_evaluate import (
    Evaluation,
    FilterFailed,
    Subject,
    missing,
    system_properties,
    value_of,
)
from etagere.services.bus.sql_filter import Parser, no_parameters
from etagere.services.bus.sql_lexer import Kind, malformed
from etagere.services.bus.sql_tree import Scope, Tree, Value

statements_max: Final = 32

writable_system_properties: Final = frozenset(
    (
        "CorrelationId",
        "MessageId",
        "Label",
        "To",
        "ReplyTo",
        "SessionId",
        "ReplyToSessionId",
        "ContentType",
        "TimeToLive",
    )
)


class Set(msgspec.Struct, frozen=True):
    property: sql_tree.Property
    value: Tree


class Remove(msgspec.Struct, frozen=True):
    name: str


Statement = Set | Remove


class Changes(msgspec.Struct):
    """What an action did to a message."""

    application: dict[str, Value]
    removed: set[str]
    system: dict[str, Value]
    """By the names of `writable_system_properties`: text, or None to clear; TimeToLive a
    timedelta."""


def parse_action(
    text: str, parameters: Mapping[str, Value] = no_parameters
) -> tuple[Statement, ...]:
    """The statements of an action; refused with `com.microsoft:argument-error` if it is none."""
    parser = Parser(text, parameters)
    statements: list[Statement] = []
    while True:
        while parser.take_sign(";"):
            pass
        if parser.token.kind is Kind.end:
            break
        statements.append(_statement(parser))
        if len(statements) > statements_max:
            raise errors.argument(
                "SqlExpression", f"The action has more than {statements_max} statements."
            )
    if not statements:
        raise malformed("a statement is expected", 0)
    return tuple(statements)


def _statement(parser: Parser) -> Statement:
    at = parser.token.at
    if parser.take_keyword("SET"):
        subject = parser.property()
        if subject.scope is Scope.sys:
            name = system_properties.get(subject.name.casefold())
            if name not in writable_system_properties:
                raise malformed("this system property cannot be set", at)
            subject = sql_tree.Property(Scope.sys, name)
        parser.expect_sign("=")
        return Set(subject, parser.expression())
    if parser.take_keyword("REMOVE"):
        subject = parser.property()
        if subject.scope is Scope.sys:
            raise malformed("system properties cannot be removed", at)
        return Remove(subject.name)
    raise malformed("SET or REMOVE is expected", at)


class Action:
    """Statements made ready to be run on any number of messages."""

    __slots__ = ("_steps",)

    def __init__(self, statements: tuple[Statement, ...]) -> None:
        self._steps: list[tuple[sql_tree.Property, Evaluation | None]] = [
            (statement.property, value_of(statement.value))
            if isinstance(statement, Set)
            else (sql_tree.Property(Scope.user, statement.name), None)
            for statement in statements
        ]

    def apply(self, message: Subject) -> Changes:
        """The changes it makes to `message`; FilterFailed if a statement cannot be worked out."""
        changed = _Changed(message)
        for target, evaluate in self._steps:
            if evaluate is None:
                changed.remove(target.name)
            elif target.scope is Scope.sys:
                changed.set_system(target.name, evaluate(changed))
            else:
                changed.set_user(target.name, evaluate(changed))
        return changed.changes


class _Changed:
    """A message with the changes so far; what the next statement sees."""

    __slots__ = ("_message", "_user", "changes")

    def __init__(self, message: Subject) -> None:
        self._message = message
        self._user: dict[str, Value] = {}  # by folded name
        self.changes = Changes({}, set(), {})

    def system(self, name: str) -> Value:
        if name in self.changes.system:
            return self.changes.system[name]
        return self._message.system(name)

    def user(self, name: str) -> Value:
        folded = name.casefold()
        if folded in self._user:
            return self._user[folded]
        return self._message.user(name)

    def user_exactly(self, name: str) -> Value:
        return self.user(name)

    def new_id(self) -> UUID:
        return self._message.new_id()

    def set_user(self, name: str, value: Value) -> None:
        self._drop(name)
        self.changes.application[name] = value
        self._user[name.casefold()] = value

    def remove(self, name: str) -> None:
        self._drop(name)
        self._user[name.casefold()] = missing

    def set_system(self, name: str, value: Value) -> None:
        if name == "TimeToLive":
            if not isinstance(value, timedelta) or value <= timedelta():
                raise FilterFailed("TimeToLive takes a positive duration.")
        elif isinstance(value, UUID):
            value = str(value)
        elif not (value is None or isinstance(value, str)):
            raise FilterFailed("A system property takes text.")
        self.changes.system[name] = value

    def _drop(self, name: str) -> None:
        """Names are compared without regard to case: the one that there is gives way."""
        folded = name.casefold()
        for present in [key for key in self.changes.application if key.casefold() == folded]:
            del self.changes.application[present]
        self.changes.removed.add(folded)
