"""Counting requests, merging what workers counted, and the text that Prometheus reads."""

from prometheus_client.parser import text_string_to_metric_families

from etagere.app.metrics import RequestMetrics, gauge
from etagere.app.store_metrics import _kinds, store_lines, store_snapshot
from etagere.kv.engines.lmdb import LmdbEngine
from etagere.servers.real import RealClock


def parsed(metrics):
    text = "\n".join(metrics.lines()) + "\n"
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def at(name, **labels):
    return name, tuple(sorted(labels.items()))


def test_requests_are_counted_by_operation_status_and_code():
    metrics = RequestMetrics()
    metrics.served("blob", "PutBlob", 201, "", 0.002)
    metrics.served("blob", "PutBlob", 201, "", 0.2)
    metrics.served("blob", "PutBlob", 412, "ConditionNotMet", 40.0)
    metrics.served("queue", "", 400, "InvalidUri", 0.0001)
    metrics.dropped("blob")
    found = parsed(metrics)
    requests = "etagere_requests_total"
    put = {"service": "blob", "operation": "PutBlob"}
    assert found[at(requests, **put, status="201", code="")] == 2
    assert found[at(requests, **put, status="412", code="ConditionNotMet")] == 1
    assert found[
        at(requests, service="queue", operation="unknown", status="400", code="InvalidUri")
    ]
    assert found[at("etagere_requests_dropped_total", service="blob")] == 1
    seconds = "etagere_request_seconds"
    assert found[at(f"{seconds}_bucket", **put, le="0.001")] == 0
    assert found[at(f"{seconds}_bucket", **put, le="0.0025")] == 1
    assert found[at(f"{seconds}_bucket", **put, le="0.25")] == 2
    assert found[at(f"{seconds}_bucket", **put, le="30.0")] == 2
    assert found[at(f"{seconds}_bucket", **put, le="+Inf")] == 3
    assert found[at(f"{seconds}_count", **put)] == 3
    assert abs(found[at(f"{seconds}_sum", **put)] - 40.202) < 1e-9


def test_what_workers_counted_adds_up():
    one, two, merged = RequestMetrics(), RequestMetrics(), RequestMetrics()
    for metrics in (one, two):
        metrics.served("blob", "GetBlob", 200, "", 0.002)
        metrics.dropped("blob")
    two.served("table", "QueryEntities", 200, "", 0.01)
    for snapshot in (one.snapshot(), {**two.snapshot(), "pid": 1}):
        merged.merge(snapshot)
    found = parsed(merged)
    get = {"service": "blob", "operation": "GetBlob"}
    assert found[at("etagere_requests_total", **get, status="200", code="")] == 2
    assert found[at("etagere_request_seconds_count", **get)] == 2
    assert (
        found[at("etagere_request_seconds_count", service="table", operation="QueryEntities")] == 1
    )
    assert found[at("etagere_requests_dropped_total", service="blob")] == 2
    assert found[at("etagere_process_requests_total", pid="1")] == 2


def test_labels_are_escaped():
    metrics = RequestMetrics()
    metrics.served('a"b', "c\\d\ne", 200, "", 0)
    labels = {"service": 'a"b', "operation": "c\\d\ne", "status": "200", "code": ""}
    assert parsed(metrics)[at("etagere_requests_total", **labels)] == 1


def test_a_gauge():
    assert gauge("a_b", "What it is.", 2.5) == (
        "# HELP a_b What it is.",
        "# TYPE a_b gauge",
        "a_b 2.5",
    )


def test_figures_of_stores_add_up_or_are_the_largest():
    one = {"commits": 3, "bodies": 10, "bodies_in_largest_commit": 5, "file_bytes": 4096}
    two = {"commits": 1, "bodies": 2, "bodies_in_largest_commit": 7, "file_bytes": 4096}
    text = "\n".join(store_lines([one, {}, two])) + "\n"
    found = {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found == {
        "etagere_store_commits_total": 4,
        "etagere_store_writes_total": 12,
        "etagere_store_commit_writes_max": 7,
        "etagere_store_file_bytes": 4096,
    }


async def test_an_engine_tells_what_the_table_names(tmp_path):
    engine = LmdbEngine.open(tmp_path, clock=RealClock())
    found = store_snapshot(engine)
    await engine.close()
    assert found.keys() == _kinds.keys()


def test_an_engine_without_figures_tells_nothing():
    assert store_snapshot(object()) == {}
