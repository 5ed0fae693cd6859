"""What a path of the Table service names.

/                                        the service
/Tables                                  all tables
/Tables('T')                             a table
/T, /T()                                 the entities of a table, and its access policies
/T(PartitionKey='..',RowKey='..')        an entity
/$batch                                  an entity group transaction
"""

import re
from enum import Enum
from typing import Final

import msgspec

from etagere.base.errors import Refused
from etagere.services.table.edm import invalid_input


class Kind(Enum):
    SERVICE = "service"
    TABLES = "tables"
    TABLE = "table"
    ENTITIES = "entities"
    ENTITY = "entity"
    BATCH = "batch"


class TablePath(msgspec.Struct, frozen=True, gc=False):
    kind: Kind
    table: str = ""
    partition_key: str = ""
    row_key: str = ""


_batch: Final = "$batch"
_tables: Final = "tables"
_usual: Final = re.compile(r"([^(/]*)\(PartitionKey='([^']*)',RowKey='([^']*)'\)")
"""An entity as SDKs name it; no quote has to be taken out of its keys."""
_entity: Final = Kind.ENTITY
_literal: Final = r"'((?:[^']|'')*)'"
_named: Final = re.compile(_literal)
_keyed: Final = re.compile(
    rf"\s*(PartitionKey|RowKey)\s*=\s*{_literal}\s*,\s*(PartitionKey|RowKey)\s*=\s*{_literal}\s*"
)


def parse(path: str) -> TablePath:
    """Read a decoded path, without the account and without its leading slash."""
    usual = _usual.fullmatch(path)
    if usual is not None and usual[1].lower() != _tables:
        return TablePath(_entity, usual[1], usual[2], usual[3])
    return _parse_any(path)


def _parse_any(path: str) -> TablePath:
    name, bracket, rest = path.partition("(")
    if "/" in name:
        raise Refused("InvalidUri")
    if not bracket:
        return _bare(name)
    if not rest.endswith(")"):
        raise Refused("InvalidUri")
    inner = rest[:-1]
    if not inner.strip():
        return _bare(name)
    if name.lower() == _tables:
        found = _named.fullmatch(inner)
        if found is None:
            raise Refused("InvalidUri")
        return TablePath(Kind.TABLE, _unquote(found[1]))
    keys = _keyed.fullmatch(inner)
    if keys is None or keys[1] == keys[3]:
        raise invalid_input("An entity is named by its PartitionKey and its RowKey.")
    partition_key, row_key = _unquote(keys[2]), _unquote(keys[4])
    if keys[1] == "RowKey":
        partition_key, row_key = row_key, partition_key
    return TablePath(Kind.ENTITY, name, partition_key, row_key)


def _bare(name: str) -> TablePath:
    if not name:
        return TablePath(Kind.SERVICE)
    if name.lower() == _batch:
        return TablePath(Kind.BATCH)
    if name.lower() == _tables:
        return TablePath(Kind.TABLES)
    return TablePath(Kind.ENTITIES, name)


def _unquote(literal: str) -> str:
    return literal.replace("''", "'")
