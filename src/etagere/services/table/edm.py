"""Property types: which JSON values each takes, and the one form in which each is kept.

A property is kept as the wire writes it at minimal metadata: a JSON value, and beside it the
annotation `name@odata.type` where the value alone does not say its type (Azure: 'Payload format
for Table service operations', property types).  So what is stored is what a query sends.
"""

import base64
import binascii
import re
from collections.abc import Callable
from typing import Final

from etagere.base.clock import Timestamp, ticks_per_second
from etagere.base.errors import Refused
from etagere.kernel.dates import format_iso, format_iso_seconds, parse_iso

Scalar = str | int | float | bool

annotation_suffix: Final = "@odata.type"

binary: Final = "Edm.Binary"
boolean: Final = "Edm.Boolean"
datetime: Final = "Edm.DateTime"
double: Final = "Edm.Double"
guid: Final = "Edm.Guid"
int32: Final = "Edm.Int32"
int64: Final = "Edm.Int64"
string: Final = "Edm.String"

annotated: Final = frozenset({binary, datetime, guid, int64})
"""The types that an annotation always accompanies, except where metadata is switched off."""

string_units_max: Final = 32 * 1024
"""A string takes 64 KiB as UTF-16."""
binary_bytes_max: Final = 64 * 1024

int32_min: Final = -(2**31)
int32_max: Final = 2**31 - 1
_int64_min: Final = -(2**63)
_int64_max: Final = 2**63 - 1

_integer_form: Final = re.compile(r"-?[0-9]{1,20}", re.ASCII)
forms: Final = {
    # Shorter than the longest, so within the range.
    int64: r"(?:0|-?[1-9][0-9]{0,17})",
    # Groups that repeat would take twice as long.
    guid: r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    # Leap days are left to the calendar.
    datetime: r"(?:[2-9][0-9]{3}|1(?:60[1-9]|6[1-9][0-9]|[7-9][0-9]{2}))-"
    r"(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)"
    r"|(?:0[13578]|1[02])-31)T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,7})?Z",
    # The bits that the last letter has too many are zero.
    binary: r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?",
}
"""What most clients send, which is kept as it is but for the zeros at the end of a fraction."""
_kept_int64: Final = re.compile(forms[int64])
_guid_form: Final = re.compile(forms[guid])
_kept_datetime: Final = re.compile(forms[datetime])
_double_form: Final = re.compile(r"-?[0-9]{1,400}(?:\.[0-9]{1,400})?(?:[eE][+-]?[0-9]{1,4})?")
_named_doubles: Final = frozenset({"NaN", "Infinity", "-Infinity"})

datetime_earliest: Final = Timestamp(-11_644_473_600 * ticks_per_second)
"""1601-01-01T00:00:00Z, the first moment that a Windows file time can name."""


def format_moment(moment: Timestamp) -> str:
    """`2021-06-17T17:32:46.777543Z`: to 100 ns, without the zeros at the end of the fraction."""
    if moment % 10:  # most are as fine as they can be
        return format_iso(moment)
    if moment % ticks_per_second == 0:
        return format_iso_seconds(moment)
    return format_iso(moment)[:-1].rstrip("0") + "Z"


def utf16_units(text: str) -> int:
    """How many UTF-16 code units the text takes: what the limits on strings count."""
    if text.isascii():
        return len(text)
    return len(text) + sum(1 for char in text if char > "\uffff")


def invalid_input(message: str | None = None) -> Refused:
    return Refused("InvalidInput", message=message)


def settle_plain(value: object) -> Scalar:
    """A value without an annotation, in the form in which it is kept."""
    kind = type(value)
    if kind is str:
        if len(value) * 2 <= string_units_max:  # type: ignore[arg-type]  # a str by `kind`
            return value  # type: ignore[return-value]  # same
        return _settle_string(value)
    if kind is int:
        # UNCONFIRMED for what is wider than Int32: users of the live service find Doubles, as its
        # library for JSON makes of such numbers, and `Date.now()` comes so from @azure/data-tables.
        return value if int32_min <= value <= int32_max else _settle_double(value)  # type: ignore[operator,return-value]  # an int by `kind`
    if kind is float:
        return _settle_double(value)
    if kind is bool:
        return value  # type: ignore[return-value]  # `kind is` does not narrow
    raise invalid_input("A property's value must be a string, a number, a boolean or null.")


def settle(value: object, type_name: object) -> tuple[Scalar, str | None]:
    """A value of the annotated type as it is kept, and the annotation that is kept with it."""
    if type(type_name) is not str or type_name not in _settlers:
        raise invalid_input("The type of a property is not one that tables have.")
    kept = _settlers[type_name](value)
    if type_name in annotated or (type_name == double and type(kept) is str):
        return kept, type_name
    return kept, None


def _settle_string(value: object) -> str:
    if type(value) is not str:
        raise invalid_input("The value does not fit the type Edm.String.")
    if len(value) * 2 > string_units_max and utf16_units(value) > string_units_max:
        raise Refused("PropertyValueTooLarge")
    return value


def _settle_int32(value: object) -> int:
    number = _integer(value)
    if number is None or not int32_min <= number <= int32_max:
        raise invalid_input("The value does not fit the type Edm.Int32.")
    return number


def _settle_int64(value: object) -> str:
    if type(value) is str and _kept_int64.fullmatch(value):
        return value
    number = _integer(value)
    if number is None or not _int64_min <= number <= _int64_max:
        raise invalid_input("The value does not fit the type Edm.Int64.")
    return str(number)


def _integer(value: object) -> int | None:
    """An integer as a JSON number or as decimal text; both are sent with an annotation."""
    if type(value) is int:
        return value
    if type(value) is str and _integer_form.fullmatch(value):
        return int(value)
    return None


def _settle_double(value: object) -> float | str:
    if type(value) is str:
        if value in _named_doubles:
            return value
        if not _double_form.fullmatch(value):
            raise invalid_input("The value does not fit the type Edm.Double.")
        number = float(value)
    elif type(value) is float:
        number = value
    elif type(value) is int:
        try:
            number = float(value)
        except OverflowError:
            raise invalid_input("The value does not fit the type Edm.Double.") from None
    else:
        raise invalid_input("The value does not fit the type Edm.Double.")
    if number in (float("inf"), float("-inf")):
        raise invalid_input("The value does not fit the type Edm.Double.")
    return number + 0.0  # the service knows no negative zero; -0.0 + 0.0 is 0.0


def _settle_boolean(value: object) -> bool:
    if type(value) is bool:
        return value
    if value in ("true", "false"):
        return value == "true"
    raise invalid_input("The value does not fit the type Edm.Boolean.")


def settle_datetime(value: object) -> str:
    if type(value) is str and _kept_datetime.fullmatch(value):
        if "." not in value:
            return value
        return value if value[-2] != "0" else value[:-1].rstrip("0").removesuffix(".") + "Z"
    moment = parse_iso(value) if type(value) is str else None
    if moment is None or moment < datetime_earliest:
        raise invalid_input("The value does not fit the type Edm.DateTime.")
    return format_moment(moment)


def settle_guid(value: object) -> str:
    if type(value) is str:
        lowered = value.lower()
        if _guid_form.fullmatch(lowered):
            return lowered
    raise invalid_input("The value does not fit the type Edm.Guid.")


def _settle_binary(value: object) -> str:
    if type(value) is not str:
        raise invalid_input("The value does not fit the type Edm.Binary.")
    try:
        raw = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise invalid_input("The value does not fit the type Edm.Binary.") from None
    if len(raw) > binary_bytes_max:
        raise Refused("PropertyValueTooLarge")
    return base64.b64encode(raw).decode()


_settlers: Final[dict[str, Callable[[object], Scalar]]] = {
    binary: _settle_binary,
    boolean: _settle_boolean,
    datetime: settle_datetime,
    double: _settle_double,
    guid: settle_guid,
    int32: _settle_int32,
    int64: _settle_int64,
    string: _settle_string,
}
