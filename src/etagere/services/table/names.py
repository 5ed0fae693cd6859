"""What tables, properties and keys may be called.

Azure: 'Understanding the Table service data model' and 'Naming tables'.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from etagere.base.errors import Refused
from etagere.services.table.edm import utf16_units

key_units_max: Final = 512
"""A key takes 1 KiB as UTF-16."""
property_name_units_max: Final = 255
property_names_remembered: Final = 1024
partition_keys_remembered: Final = 256
table_name_length_min: Final = 3
table_name_length_max: Final = 63

_table_form: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*", re.ASCII)
_table_names_reserved: Final = frozenset({"tables"})
_key_forbidden: Final = re.compile(r"[/\\#?\x00-\x1f\x7f-\x9f\ud800-\udfff]")

_identifier_start: Final = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Nl"})
_identifier_part: Final = _identifier_start | {"Mn", "Mc", "Nd", "Pc", "Cf"}


def check_table_name(name: str) -> None:
    """Refuse a name that no table can have."""
    if not _table_form.fullmatch(name) or name.lower() in _table_names_reserved:
        raise Refused("InvalidResourceName")
    if not table_name_length_min <= len(name) <= table_name_length_max:
        # The SDKs tell a name that is too short or too long by these words.
        raise Refused(
            "OutOfRangeInput",
            message="The specified resource name length is not within the permissible limits.",
        )


@lru_cache(maxsize=property_names_remembered)
def check_property_name(name: str) -> None:
    """Refuse a name that is no C# identifier, or too long."""
    if len(name) * 2 > property_name_units_max and utf16_units(name) > property_name_units_max:
        raise Refused("PropertyNameTooLong")
    if not name.isidentifier() and not _is_identifier(name):
        raise Refused("PropertyNameInvalid")


def _is_identifier(name: str) -> bool:
    """C# lets a few format characters in that Python's own notion of an identifier does not."""
    if not name:
        return False
    first = name[0]
    if first != "_" and unicodedata.category(first) not in _identifier_start:
        return False
    return all(unicodedata.category(char) in _identifier_part for char in name)


def check_key(key: str) -> None:
    """Refuse a partition or row key that no entity can have."""
    if len(key) * 2 > key_units_max and utf16_units(key) > key_units_max:
        raise Refused("PropertyValueTooLarge")
    if not key.isalnum() and _key_forbidden.search(key):
        raise Refused("OutOfRangeInput")


def are_keys(texts: Sequence[str]) -> bool:
    """Whether `check_key` takes each of these; of those that may be too long this says no."""
    joined = "".join(texts)
    return max(map(len, texts)) * 2 <= key_units_max and (
        joined.isalnum() or not _key_forbidden.search(joined)
    )


check_partition_key: Final = lru_cache(maxsize=partition_keys_remembered)(check_key)
"""The same, for what many entities have in common."""
