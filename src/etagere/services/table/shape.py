"""Bodies whose members are named like those of a body before: read by what is known of the names.

The entities of a table mostly have the same properties, and the operations of a batch nearly always
do.  Which names are keys, which are annotations and whose, and whether each may be the name of a
property, is found out once for a sequence of names; values are looked at every time.
"""

from functools import lru_cache
from typing import Final, NamedTuple

from etagere.base.errors import Refused
from etagere.services.table import edm
from etagere.services.table.entity import EntityBody, Properties
from etagere.services.table.names import check_property_name

names_max: Final = 64
shapes_remembered: Final = 256

_keys: Final = ("PartitionKey", "RowKey")


class Shape(NamedTuple):
    properties: tuple[tuple[str, str | None], ...]
    """Each name, and the name of its annotation if it has one."""
    texts: tuple[str, ...]
    """Annotations of keys, which must say that a key is a string."""


@lru_cache(maxsize=shapes_remembered)
def _shape_of(names: tuple[str, ...]) -> Shape | None:
    """Nothing for names that want to be read one by one, such as those to be refused."""
    own = {name for name in names if "@" not in name}
    annotations = {}
    for name in names:
        owner, at, kind = name.partition("@")
        if at:
            if kind != "odata.type" or owner not in own:
                return None
            annotations[owner] = name
        elif name.startswith("odata.") or name == "Timestamp":
            return None
    try:
        for name in own:
            check_property_name(name)
    except Refused:
        return None
    return Shape(
        tuple((name, annotations.get(name)) for name in names if name in own and name not in _keys),
        tuple(annotations[name] for name in _keys if name in annotations),
    )


def read_usual(members: dict[str, object]) -> EntityBody | None:
    """What `read_members` makes of the same members, or nothing where it has to be asked.

    No text among them may be longer than a string property can be.
    """
    if len(members) > names_max:
        return None
    shape = _shape_of(tuple(members))
    if shape is None:
        return None
    for name in shape.texts:
        if members[name] != edm.string:
            return None
    partition_key, row_key = members.get("PartitionKey"), members.get("RowKey")
    if not isinstance(partition_key, str | None) or not isinstance(row_key, str | None):
        return None
    settled: Properties = {}
    for name, annotation in shape.properties:
        value = members[name]
        if annotation is not None:
            if value is None:
                continue
            kept, kept_annotation = edm.settle(value, members[annotation])
            if kept_annotation is not None:
                settled[annotation] = kept_annotation
            settled[name] = kept
        elif type(value) is str or type(value) is bool:
            settled[name] = value
        elif value is not None:
            settled[name] = edm.settle_plain(value)
    return EntityBody(partition_key, row_key, settled)
