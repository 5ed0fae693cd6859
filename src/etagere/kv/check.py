"""Verifies a whole store that nobody has open.

First the file's pages, without trusting any of them; then the engine's own rows, the nodes of long
keys and every key; then whatever the services want to know of their records (`Checker`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import lmdb
from lmdb.verify import VerifyError
from lmdb.verify import verify as verify_pages

from etagere.base.clock import Timestamp
from etagere.kv.contract import Partition, ReadTx, StoreUnusable
from etagere.kv.engines.directory_lock import DirectoryLock
from etagere.kv.engines.environment import data_file_name
from etagere.kv.engines.long_keys import next_node_key, node_space
from etagere.kv.engines.rows import LmdbRows, format_key, format_version, stamp_key
from etagere.kv.overlay import Row, SnapshotTx
from etagere.kv.runner import run
from etagere.kv.tuples import Item, MalformedTuple, unpack, unpack_from

findings_max: Final = 1000


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it must be."""

    checker: str
    where: str
    problem: str


class CheckTx(ReadTx, Protocol):
    """What a checker reads: everything, at rest."""

    @property
    def last_stamp(self) -> int:
        """The highest stamp that was ever taken; none in any record may be above it."""
        ...

    def partitions(self) -> Iterator[Partition]:
        """Every partition that has a row."""
        ...


class Checker(Protocol):
    @property
    def name(self) -> str: ...

    async def check(self, tx: CheckTx) -> list[Finding]: ...


TupleKeys = Callable[[tuple[Item, ...]], bool]


def everywhere(_partition: tuple[Item, ...]) -> bool:
    return True


def nowhere(_partition: tuple[Item, ...]) -> bool:
    return False


def check_store(
    path: Path | str, checkers: Sequence[Checker] = (), *, tuple_keys: TupleKeys = everywhere
) -> list[Finding]:
    """What is wrong with the store in this directory; at most `findings_max` findings.

    StoreUnusable if it is in use or is no store.  `tuple_keys`: in which partitions every key must
    be a packed tuple, which the engine does not ask for.
    """
    path = Path(path)
    if not (path / data_file_name).exists():
        raise StoreUnusable(f"{path}: no store here")
    with DirectoryLock(path):
        findings = _check_pages(path)
        if findings:
            return findings  # nothing in the file may be followed
        try:
            opened = lmdb.open(str(path), readonly=True, lock=False, create=False, map_size=0)
        except lmdb.Error as error:
            raise StoreUnusable(f"{path}: {error}") from error
        with opened as env, env.begin() as txn:
            rows = _RowCheck(txn, env.max_key_size(), tuple_keys=tuple_keys)
            findings = rows.check()
            if not findings:
                tx = _CheckTx(LmdbRows(txn, env.max_key_size()))
                for checker in checkers:
                    findings += _ask(checker, tx)
    return findings[:findings_max]


def _ask(checker: Checker, tx: CheckTx) -> list[Finding]:
    try:
        return run(checker.check, tx)
    except Exception as error:  # noqa: BLE001 - damage that it did not think of is damage all the same
        return [Finding(checker.name, "a record", f"cannot be checked: {error!r}")]


def _check_pages(path: Path) -> list[Finding]:
    try:
        problems: list[str] = verify_pages(str(path))  # type: ignore[no-untyped-call]  # no stub
    except VerifyError as error:
        problems = [str(error)]
    return [Finding("pages", data_file_name, problem) for problem in problems]


class _CheckTx(SnapshotTx):
    """A `CheckTx`."""

    __slots__ = ("_rows",)

    def __init__(self, rows: LmdbRows) -> None:
        super().__init__(rows, Timestamp(0))
        self._rows = rows

    @property
    def last_stamp(self) -> int:
        return self._rows.last_stamp()

    def partitions(self) -> Iterator[Partition]:
        return self._rows.partitions()


@dataclass(slots=True)
class _Node:
    """A node of long keys, as its rows and the pointer to it show it."""

    rows: int = 0
    stem: bytes | None = None
    """What the keys below it begin with, once the way to it is known."""
    pointed: int = 0


class _RowCheck:
    """Reads every row once, and those of nodes once more when the way to them is known."""

    def __init__(
        self, txn: "lmdb.Transaction[bytes]", row_key_bytes: int, *, tuple_keys: TupleKeys
    ) -> None:
        self._txn = txn
        self._row_key_bytes = row_key_bytes
        self._tuple_keys = tuple_keys
        self._nodes: dict[bytes, _Node] = {}
        self._pointers: dict[bytes, list[Row]] = {}
        """The pointers in each node, the root's under the empty prefix."""
        self._findings: list[Finding] = []

    def check(self) -> list[Finding]:
        for key, value in self._txn.cursor().iternext():
            if len(self._findings) >= findings_max:
                break
            self._check_row(key, value)
        self._check_own_rows()
        self._check_nodes()
        return self._findings

    def _find(self, key: bytes, problem: str) -> None:
        self._findings.append(Finding("rows", _readable(key), problem))

    def _check_row(self, key: bytes, value: bytes) -> None:
        if key.startswith(b"\x01"):
            if key not in (stamp_key, next_node_key, format_key):
                self._find(key, "unknown row of the engine")
            return
        node = b""
        if key.startswith(node_space):
            node = _node_of(key)
            if not node:
                self._find(key, "row of a node without a number")
                return
            self._nodes.setdefault(node, _Node()).rows += 1
        if len(key) == self._row_key_bytes:
            self._pointers.setdefault(node, []).append((key, value))
            if _node_of(value) == value != b"":
                self._nodes.setdefault(value, _Node()).pointed += 1
            else:
                self._find(key, "pointer to something that is not a node")
        elif not node:
            self._check_key(key)

    def _check_key(self, key: bytes) -> None:
        """A whole key: a partition, 00, and the key in it."""
        try:
            part, at = unpack_from(key, 0)
            if not part or key[at : at + 1] != b"\0":
                self._find(key, "key without a partition")
            elif self._tuple_keys(part):
                unpack(key[at + 1 :])
        except MalformedTuple as error:
            self._find(key, f"key that does not decode: {error}")

    def _check_own_rows(self) -> None:
        get = self._txn.get
        if get(format_key) != format_version:
            self._find(format_key, "unknown format")
        for key in (stamp_key, next_node_key):
            if len(get(key) or b"8 bytes!") != 8:
                self._find(key, "number of another size than 8 bytes")
        next_node = int.from_bytes(get(next_node_key) or b"", "big")
        for node in self._nodes:
            if _number_of(node) >= next_node:
                self._find(node, "node with a number that is still to be given")

    def _check_nodes(self) -> None:
        for node, seen in self._nodes.items():
            if seen.rows == 0:
                self._find(node, "pointer to a node without rows")
            if seen.pointed == 0:
                self._find(node, "node that nothing points to")
            elif seen.pointed > 1:
                self._find(node, "node that more than one row points to")
        if not self._findings:
            self._check_ways()

    def _check_ways(self) -> None:
        """Every node is reached from the root, and the keys below it are whole."""
        reached = [(b"", b"")]
        while reached:
            node, stem = reached.pop()
            if node:
                self._nodes[node].stem = stem
                self._check_keys_below(node, stem)
            for key, child in self._pointers.get(node, ()):
                reached.append((child, stem + key[len(node) :]))
        for node, seen in self._nodes.items():
            if seen.stem is None:
                self._find(node, "node that the root does not lead to")

    def _check_keys_below(self, node: bytes, stem: bytes) -> None:
        cursor = self._txn.cursor()
        if not cursor.set_range(node):
            return
        for key, _ in cursor.iternext():
            if not key.startswith(node):
                return
            if len(key) < self._row_key_bytes:
                self._check_key(stem + key[len(node) :])


def _node_of(key: bytes) -> bytes:
    """The prefix of the node that a row lies in, or nothing if there is none."""
    if not key.startswith(node_space) or len(key) < 2 or not 0x20 <= key[1] <= 0x28:
        return b""
    node = key[: 2 + key[1] - 0x20]
    try:
        unpack(node[1:])
    except MalformedTuple:
        return b""
    return node


def _number_of(node: bytes) -> int:
    return int.from_bytes(node[2:], "big")


def _readable(key: bytes) -> str:
    try:
        part, at = unpack_from(key, 0)
        if part and key[at : at + 1] == b"\0":
            return f"{part!r} {unpack(key[at + 1 :])!r}"
    except MalformedTuple:
        pass
    return key.hex()
