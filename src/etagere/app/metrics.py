"""Counters and histograms of requests, merged over workers, in Prometheus' text format.

Our own, because prometheus-client takes 70 ms to import and counts per call what is counted here
with two dictionary look-ups.
"""

import os
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Any, Final

_bounds: Final = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip
"""Seconds; one more bucket takes what is longer."""

operation_unknown: Final = "unknown"


class _Series:
    """The requests of one operation."""

    __slots__ = ("buckets", "outcomes", "seconds")

    def __init__(self) -> None:
        self.outcomes: dict[tuple[int, str], int] = {}
        """By status and error code."""
        self.buckets = [0] * (len(_bounds) + 1)
        self.seconds = 0.0


class RequestMetrics:
    """What one process has served.  Keys come from operation tables, so there are few."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, str], _Series] = {}
        self._dropped: dict[str, int] = {}
        self._by_process: dict[int, int] = {}
        """Filled by `merge`."""

    def served(self, service: str, operation: str, status: int, code: str, seconds: float) -> None:
        key = (service, operation or operation_unknown)
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = _Series()
        outcome = (status, code)
        series.outcomes[outcome] = series.outcomes.get(outcome, 0) + 1
        series.buckets[bisect_left(_bounds, seconds)] += 1
        series.seconds += seconds

    def dropped(self, service: str) -> None:
        """A client went away before its answer."""
        self._dropped[service] = self._dropped.get(service, 0) + 1

    def snapshot(self) -> dict[str, Any]:
        """As plain values, for the way from a worker to the process that shows them."""
        return {
            "pid": os.getpid(),
            "series": [
                [
                    service,
                    operation,
                    [[*key, n] for key, n in s.outcomes.items()],
                    s.buckets,
                    s.seconds,
                ]
                for (service, operation), s in self._series.items()
            ],
            "dropped": self._dropped,
        }

    def merge(self, snapshot: Mapping[str, Any]) -> None:
        pid = snapshot["pid"]
        for service, operation, outcomes, buckets, seconds in snapshot["series"]:
            self._by_process[pid] = self._by_process.get(pid, 0) + sum(buckets)
            series = self._series.setdefault((service, operation), _Series())
            for status, code, count in outcomes:
                key = (status, code)
                series.outcomes[key] = series.outcomes.get(key, 0) + count
            series.buckets = [a + b for a, b in zip(series.buckets, buckets, strict=True)]
            series.seconds += seconds
        for service, count in snapshot["dropped"].items():
            self._dropped[service] = self._dropped.get(service, 0) + count

    def lines(self) -> Iterable[str]:
        yield from heading("etagere_requests_total", "counter", "Requests answered.")
        for (service, operation), series in sorted(self._series.items()):
            at = {"service": service, "operation": operation}
            for (status, code), count in sorted(series.outcomes.items()):
                labels = {**at, "status": str(status), "code": code}
                yield sample("etagere_requests_total", labels, count)
        yield from heading("etagere_process_requests_total", "counter", "By worker process.")
        for pid, count in sorted(self._by_process.items()):
            yield sample("etagere_process_requests_total", {"pid": str(pid)}, count)
        yield from heading("etagere_requests_dropped_total", "counter", "Clients gone unanswered.")
        for service, count in sorted(self._dropped.items()):
            yield sample("etagere_requests_dropped_total", {"service": service}, count)
        name = "etagere_request_seconds"
        yield from heading(name, "histogram", "Time from a request's head to its answer's.")
        for (service, operation), series in sorted(self._series.items()):
            at = {"service": service, "operation": operation}
            total = 0
            for bound, count in zip((*map(str, _bounds), "+Inf"), series.buckets, strict=True):
                total += count
                yield sample(f"{name}_bucket", {**at, "le": bound}, total)
            yield sample(f"{name}_sum", at, series.seconds)
            yield sample(f"{name}_count", at, total)


def heading(name: str, kind: str, help_: str) -> tuple[str, str]:
    return f"# HELP {name} {help_}", f"# TYPE {name} {kind}"


def sample(name: str, labels: Mapping[str, str], value: float) -> str:
    if not labels:
        return f"{name} {value!r}"
    inside = ",".join(f'{key}="{_escape(text)}"' for key, text in labels.items())
    return f"{name}{{{inside}}} {value!r}"


def gauge(name: str, help_: str, value: float, kind: str = "gauge") -> tuple[str, str, str]:
    return (*heading(name, kind, help_), sample(name, {}, value))


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
