"""Words of rule expressions: the SQL subset of subscription filters and actions."""

from enum import Enum, auto
from typing import Final

import msgspec

from etagere.base.errors import Refused
from etagere.services.bus import errors

expression_chars_max: Final = 1024
integer_max: Final = 2**63
"""One above int64, so that its lowest value can be written: a minus may follow."""


class Kind(Enum):
    word = auto()
    """An identifier that is no keyword; `value` is the identifier."""
    keyword = auto()
    """`value` in upper case."""
    constant = auto()
    """`value` is a str, int or float."""
    parameter = auto()
    """`@name`."""
    sign = auto()
    """Operators and punctuation."""
    end = auto()


keywords: Final = frozenset(
    "AND OR NOT IS NULL IN LIKE ESCAPE EXISTS TRUE FALSE SET REMOVE".split()
)
_signs_of_two: Final = frozenset(("<>", "!=", "<=", ">="))
_signs_of_one: Final = frozenset("=<>+-*/%(),.;")
_digits: Final = frozenset("0123456789")


class Token(msgspec.Struct, frozen=True):
    kind: Kind
    value: str | int | float
    at: int

    def is_sign(self, text: str) -> bool:
        return self.kind is Kind.sign and self.value == text

    def is_keyword(self, word: str) -> bool:
        return self.kind is Kind.keyword and self.value == word


def malformed(reason: str, at: int) -> Refused:
    return errors.argument("SqlExpression", f"The expression is not valid at {at}: {reason}.")


def tokens_of(text: str) -> list[Token]:
    """The expression in words, with an `end` behind; refused if too long or malformed."""
    if len(text) > expression_chars_max:
        raise errors.argument(
            "SqlExpression",
            f"The expression is longer than {expression_chars_max} characters.",
        )
    tokens: list[Token] = []
    at, end = 0, len(text)
    while at < end:
        char = text[at]
        if char.isspace():
            at += 1
            continue
        if char == "'":
            value, stop = _delimited(text, at, "'")
            token = Token(Kind.constant, value, at)
        elif char in _digits or (char == "." and text[at + 1 : at + 2] in _digits):
            token, stop = _number(text, at)
        elif char in {"[", '"'}:
            name, stop = _delimited(text, at, "]" if char == "[" else '"')
            if not name:
                raise malformed("an empty name", at)
            token = Token(Kind.word, name, at)
        elif char == "@":
            stop = _word_end(text, at + 1)
            if stop == at + 1:
                raise malformed("a parameter without a name", at)
            token = Token(Kind.parameter, text[at:stop], at)
        elif char == "_" or char.isalpha():
            stop = _word_end(text, at)
            word = text[at:stop]
            upper = word.upper()
            if upper in keywords:
                token = Token(Kind.keyword, upper, at)
            else:
                token = Token(Kind.word, word, at)
        elif text[at : at + 2] in _signs_of_two:
            token, stop = Token(Kind.sign, text[at : at + 2], at), at + 2
        elif char in _signs_of_one:
            token, stop = Token(Kind.sign, char, at), at + 1
        else:
            raise malformed("an unexpected character", at)
        tokens.append(token)
        at = stop
    tokens.append(Token(Kind.end, "", end))
    return tokens


def _word_end(text: str, at: int) -> int:
    end = len(text)
    while at < end and (text[at] == "_" or text[at].isalnum()):
        at += 1
    return at


def _delimited(text: str, at: int, close: str) -> tuple[str, int]:
    """What stands between the delimiters, a doubled one inside standing for itself."""
    pieces: list[str] = []
    start = at + 1
    while True:
        stop = text.find(close, start)
        if stop < 0:
            raise malformed(f"no {close} follows", at)
        pieces.append(text[start:stop])
        if text[stop + 1 : stop + 2] != close:
            return close.join(pieces), stop + 1
        start = stop + 2


def _number(text: str, at: int) -> tuple[Token, int]:
    stop = _digits_end(text, at)
    whole = True
    if text[stop : stop + 1] == ".":
        whole = False
        stop = _digits_end(text, stop + 1)
    if text[stop : stop + 1] in ("e", "E"):
        exponent = stop + 1
        if text[exponent : exponent + 1] in ("+", "-"):
            exponent += 1
        end = _digits_end(text, exponent)
        if end == exponent:
            raise malformed("an exponent without digits", at)
        whole = False
        stop = end
    if _word_end(text, stop) != stop:
        raise malformed("a number that runs into a name", at)
    if not whole:
        return Token(Kind.constant, float(text[at:stop]), at), stop
    value = int(text[at:stop])
    if value > integer_max:
        raise malformed("an integer beyond 64 bits", at)
    return Token(Kind.constant, value, at), stop


def _digits_end(text: str, at: int) -> int:
    end = len(text)
    while at < end and text[at] in _digits:
        at += 1
    return at
