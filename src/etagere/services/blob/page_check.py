"""What must hold of page maps at rest (`page_map`); `check` hands the rows over.

chunks    pieces in order, none empty, inside their chunk; a row in `changes` for each, and no
          other; seen by an epoch that is held, or due for removal with one that is not
sources   there, and long enough
epochs    held by a record or a pin, as often as is counted; its cuts are the record's
unheld    marks of epochs that nobody holds
clears    none empty, none of one epoch overlapping; of an epoch that is there, or due for removal
          with one that is not
"""

from bisect import bisect_left
from collections import Counter
from typing import NamedTuple

from etagere.services.blob import keys
from etagere.services.blob.keys import ChunkId, ClearId, EpochId
from etagere.services.blob.page_map import SourceRuns, chunk_bytes, is_cut
from etagere.services.blob.records import (
    BlobRecord,
    Cut,
    PageMap,
    PagePiece,
    chunk_pieces,
    map_cuts,
)


class _Chunk(NamedTuple):
    """A chunk's row, the epoch of the one after it, and where its last piece ends in the blob."""

    id: ChunkId
    until: int | None
    end: int


class _Held(NamedTuple):
    """A record's share in a map."""

    page_map: PageMap
    size: int


class PageCensus:
    def __init__(self) -> None:
        self.problems: list[str] = []
        self.inline_held: Counter[int] = Counter()
        """By content id: as `SourceRuns` counts."""
        self.inline_bytes: dict[int, int] = {}
        """How long a data row must be for what is mentioned of it."""
        self.epochs_held: Counter[int] = Counter()
        self._runs = SourceRuns()
        self._chunks: dict[int, list[_Chunk]] = {}
        self._changes: set[ChunkId] = set()
        self._clears: list[ClearId] = []
        self._epochs: dict[int, dict[int, tuple[Cut, ...]]] = {}
        self._unheld: set[EpochId] = set()
        self._pinned: set[EpochId] = set()
        self._records: list[_Held] = []

    def see_record(self, record: BlobRecord) -> None:
        if record.page_map is not None:
            self.epochs_held[record.page_map.epoch] += 1
            self._records.append(_Held(record.page_map, record.size))

    def see_chunk(self, key: bytes, raw: bytes) -> None:
        found = keys.read_chunk(key)
        pieces = chunk_pieces.decode(raw)
        end = found.number * chunk_bytes + pieces[-1].end if pieces else 0
        rows = self._chunks.setdefault(found.map_id, [])
        if rows and rows[-1].id.number == found.number:
            rows[-1] = rows[-1]._replace(until=found.epoch)
        rows.append(_Chunk(found, None, end))
        for source in self._runs.begun(key, raw):
            if not source.extent:
                self.inline_held[source.inline] += 1
        self._check_pieces(found, pieces)

    def _check_pieces(self, chunk: ChunkId, pieces: tuple[PagePiece, ...]) -> None:
        at = 0
        for piece in pieces:
            if not at <= piece.start < piece.end <= chunk_bytes or piece.offset < 0:
                self.problems.append(f"chunk {chunk}: pieces overlap or are out of place")
            at = piece.end
            end = piece.offset + piece.end - piece.start
            if not piece.extent:
                self.inline_bytes[piece.inline] = max(end, self.inline_bytes.get(piece.inline, 0))
            elif end > piece.extent_size:
                self.problems.append(f"chunk {chunk}: reads beyond the end of an extent")

    def see_change(self, key: bytes) -> None:
        self._changes.add(keys.read_change(key))

    def see_clear(self, key: bytes) -> None:
        self._clears.append(keys.read_clear(key))

    def see_epoch(self, key: bytes, raw: bytes) -> None:
        map_id, epoch = keys.read_epoch(key)
        self._epochs.setdefault(map_id, {})[epoch] = map_cuts.decode(raw)

    def see_unheld(self, key: bytes) -> None:
        _, epoch = keys.read_unheld(key)
        self._unheld.add(epoch)
        self.epochs_held[epoch.epoch] += 1

    def see_pin(self, key: bytes) -> None:
        _, epoch = keys.read_pin(key)
        self._pinned.add(epoch)
        self.epochs_held[epoch.epoch] += 1

    def sum_up(self) -> list[str]:
        """After all rows: what does not fit together."""
        self._check_epochs()
        rows = {chunk.id for chunks in self._chunks.values() for chunk in chunks}
        for change in self._changes ^ rows:
            self.problems.append(f"chunk {change}: its row or its change is missing")
        for chunks in self._chunks.values():
            for chunk in chunks:
                if not self._is_wanted(chunk):
                    text = f"chunk {chunk.id}: seen by nobody, and not to be removed"
                    self.problems.append(text)
        self._check_clears()
        for held in self._records:
            self._check_end(held)
        return self.problems

    def _check_epochs(self) -> None:
        held = set(self._pinned)
        for page_map, _ in self._records:
            held.add(EpochId(page_map.id, page_map.epoch))
            cuts = self._epochs.get(page_map.id, {}).get(page_map.epoch)
            if cuts != page_map.cuts:
                self.problems.append(f"page map {page_map}: is not there, or its cuts differ")
        for epoch in self._pinned:
            if epoch.epoch not in self._epochs.get(epoch.map_id, {}):
                self.problems.append(f"page map {epoch}: pinned, but not there")
        for epoch in held & self._unheld:
            self.problems.append(f"page map {epoch}: held, but marked for removal")
        there = {EpochId(m, epoch) for m, epochs in self._epochs.items() for epoch in epochs}
        for epoch in there - held - self._unheld:
            self.problems.append(f"page map {epoch}: held by nobody")

    def _check_clears(self) -> None:
        last = ClearId(0, 0, 0, 0)
        for clear in self._clears:
            map_id, epoch, start, end = clear
            at = last.end if (last.map_id, last.epoch) == (map_id, epoch) else 0
            if not at <= start < end:
                self.problems.append(f"clear {clear}: overlaps another, or is empty")
            last = clear
            if epoch not in self._epochs.get(map_id, {}) and not self._goes_with_another(clear):
                self.problems.append(f"clear {clear}: of no epoch, and not to be removed")

    def _goes_with_another(self, row: ChunkId | ClearId) -> bool:
        """Whether a later epoch is due for removal, and with it what earlier ones left."""
        return any(o.map_id == row.map_id and o.epoch >= row.epoch for o in self._unheld)

    def _is_wanted(self, chunk: _Chunk) -> bool:
        map_id, number, epoch = chunk.id
        if any(
            epoch <= held and (chunk.until is None or held < chunk.until)
            for held, cuts in self._epochs.get(map_id, {}).items()
            if not is_cut(cuts, number, epoch)
        ):
            return True
        return self._goes_with_another(chunk.id)

    def _check_end(self, held: _Held) -> None:
        page_map, size = held
        chunks = self._chunks.get(page_map.id, [])
        first = bisect_left(chunks, size // chunk_bytes, key=lambda chunk: chunk.id.number)
        for chunk in chunks[first:]:
            _, number, epoch = chunk.id
            seen = epoch <= page_map.epoch and (chunk.until is None or page_map.epoch < chunk.until)
            if seen and chunk.end > size and not is_cut(page_map.cuts, number, epoch):
                self.problems.append(f"chunk {chunk.id}: goes on beyond the end of the blob")
