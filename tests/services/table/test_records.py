"""Records of every version that was ever written are read."""

import pytest

from etagere.services.common.access_policy import StoredPolicy
from etagere.services.table import records
from etagere.services.table.records import DirectoryEntry, EntityRecord, TableRecord

_stored = [
    # written by, the bytes, what they say
    (records.directory_entries, "0192a6506572736f6e05", None),
    (
        records.directory_entries,
        "0192a6506572736f6ecf0039b1c7d8a2e146",
        DirectoryEntry("Person", 0x0039B1C7D8A2E146),
    ),
    (records.tables, "0193a1540590", TableRecord("T", 5)),
    (
        records.tables,
        "0193a154059194a26964c005a172",
        TableRecord("T", 5, (StoredPolicy("id", None, 5, "r"),)),
    ),
    (records.tables, "0192a15405", TableRecord("T", 5)),
    (records.entities, "019205c400", EntityRecord(5, b"")),
    (records.entities, "019205c4052261223a31", EntityRecord(5, b'"a":1')),
]


@pytest.mark.parametrize(("codec", "stored", "expected"), _stored)
def test_version_1(codec, stored: str, expected):
    if expected is None:
        expected = DirectoryEntry("Person", 5)
    assert codec.decode(bytes.fromhex(stored)) == expected


@pytest.mark.parametrize("codec", [records.directory_entries, records.tables, records.entities])
def test_the_present_version_is_1(codec):
    """Whoever raises it adds the bytes of the version before to the list above."""
    assert codec.version == 1


def test_what_is_written_today_is_what_version_1_was():
    assert records.entities.encode(EntityRecord(5, b'"a":1')).hex() == "019205c4052261223a31"
    assert records.tables.encode(TableRecord("T", 5)).hex() == "0193a1540590"
