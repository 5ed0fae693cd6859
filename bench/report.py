"""What a bench prints: operations a second, percentiles, and the ratio to the peer."""

from bench.load import Measured


class Table:
    def __init__(self, title: str, peer: str) -> None:
        self._title = title
        self._peer = peer
        self._rows: list[tuple[str, Measured, Measured | None]] = []

    def add(self, name: str, ours: Measured, theirs: Measured | None) -> None:
        self._rows.append((name, ours, theirs))

    def print(self) -> None:
        print(f"\n{self._title}")
        print(
            f"{'':34}{'ops/s':>9}{'p50 ms':>9}{'p99 ms':>9}{self._peer + ' ops/s':>15}"
            f"{'p99 ms':>9}{'ratio':>8}"
        )
        for name, ours, theirs in self._rows:
            line = f"{name:34}{ours.per_second:9.0f}{ours.p50_ms:9.2f}{ours.p99_ms:9.2f}"
            if theirs is not None:
                ratio = ours.per_second / theirs.per_second
                line += f"{theirs.per_second:15.0f}{theirs.p99_ms:9.2f}{ratio:8.2f}"
            if ours.failed or (theirs is not None and theirs.failed):
                line += f"   failed: {ours.failed} / {theirs.failed if theirs else 0}"
            print(line)
