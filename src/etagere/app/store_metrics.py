"""What the stores of a server's processes tell of themselves, added up."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from etagere.app.metrics import gauge


@dataclass(frozen=True, slots=True)
class _Kind:
    """How a figure is shown, and how those of several processes make one."""

    name: str
    type: str
    help: str
    merge: str


_kinds: Final[Mapping[str, _Kind]] = {
    "commits": _Kind("commits_total", "counter", "Commits, each with one sync.", "sum"),
    "bodies": _Kind("writes_total", "counter", "Writes; many may share a commit.", "sum"),
    "commit_seconds": _Kind("commit_seconds_total", "counter", "Time spent committing.", "sum"),
    "failed_commits": _Kind("failed_commits_total", "counter", "Commits that failed.", "sum"),
    "map_growths": _Kind("map_growths_total", "counter", "Times the map grew.", "sum"),
    "bodies_in_largest_commit": _Kind("commit_writes_max", "gauge", "Largest commit.", "max"),
    "waiting": _Kind("waiting_writes", "gauge", "Writes that wait for a commit.", "sum"),
    "readers": _Kind("readers", "gauge", "Slots of readers in use.", "max"),
    "map_bytes": _Kind("map_bytes", "gauge", "Address space of the map.", "max"),
    "file_bytes": _Kind("file_bytes", "gauge", "Size of the store's file.", "max"),
    "used_bytes": _Kind("used_bytes", "gauge", "Of the file, what is in use.", "max"),
}


def store_snapshot(engine: object) -> dict[str, float]:
    """Figures of an engine that has some, as plain values."""
    stats = getattr(engine, "stats", None)
    if stats is None:
        return {}
    found: dict[str, Any] = asdict(stats())
    found.update(found.pop("commits"))
    return {name: found[name] for name in _kinds if name in found}


def store_lines(snapshots: Iterable[Mapping[str, float]]) -> Iterable[str]:
    given = [snapshot for snapshot in snapshots if snapshot]
    for figure, kind in _kinds.items():
        values = [snapshot[figure] for snapshot in given if figure in snapshot]
        if values:
            total = sum(values) if kind.merge == "sum" else max(values)
            yield from gauge(f"etagere_store_{kind.name}", kind.help, total, kind.type)
