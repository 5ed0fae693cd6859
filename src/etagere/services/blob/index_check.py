"""What must hold of the rows by which blobs are found by something else than their names."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from etagere.kv.contract import ReadTx
from etagere.services.blob import keys
from etagere.services.blob.content import Home
from etagere.services.blob.keys import RowKind
from etagere.services.blob.records import BlobRecord

indexes: Final = {
    RowKind.TAG: "tags",
    RowKind.EXPIRY: "rows to be purged",
    RowKind.LIFETIME: "blobs with an expiry time",
}


class IndexCensus:
    """Each record's rows are looked up; then rows are counted, so that there are no others."""

    def __init__(self) -> None:
        self._found: Counter[RowKind] = Counter()
        self._wanted: Counter[RowKind] = Counter()
        self._problems: list[str] = []

    def see_row(self, kind: RowKind) -> None:
        self._found[kind] += 1

    async def see_record(
        self, tx: ReadTx, home: Home, kind: RowKind, key: bytes, record: BlobRecord
    ) -> None:
        name = keys.name_of(key)
        for index, row in _rows_of(home.generation, kind, name, key, record):
            self._wanted[index] += 1
            if await tx.get(home.part, row) is None:
                self._problems.append(f"blob {name!r}: is not in the index of {indexes[index]}")

    def sum_up(self) -> list[str]:
        for index, title in indexes.items():
            found, wanted = self._found[index], self._wanted[index]
            if found > wanted:
                self._problems.append(f"index of {title}: {found} rows, of which {wanted} are due")
        return self._problems


def _rows_of(
    generation: int, kind: RowKind, name: str, key: bytes, record: BlobRecord
) -> Iterator[tuple[RowKind, bytes]]:
    if kind in (RowKind.BLOB, RowKind.VERSION):
        moment = keys.current_moment if kind is RowKind.BLOB else keys.moment_of(key)
        for tag, value in record.tags.items():
            yield RowKind.TAG, keys.tag(generation, tag, value, name, moment)
    if kind is RowKind.BLOB and record.expires:
        yield RowKind.LIFETIME, keys.lifetime(generation, record.expires, name)
    if kind is RowKind.TRASH:
        until = record.retained_until
        yield RowKind.EXPIRY, keys.expiry(generation, until, name, keys.moment_of(key))
