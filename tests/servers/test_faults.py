"""Arming faults: where they fire, for whom, how often, and by which chance."""

import pytest

from etagere.base.errors import Refused
from etagere.frontends.common.message import ClientGone
from etagere.kv.contract import StoreFailed
from etagere.servers.faults import Armed, ArmedFaults, armed_max


def armed(*faults):
    found = ArmedFaults()
    for number, fault in enumerate(faults, 1):
        fault.id = number
        found.arm(fault)
    return found


def fires(faults, point, subject=""):
    try:
        faults.reach(point, subject)
    except Exception as error:  # noqa: BLE001 - whatever was armed
        return error
    return None


def test_nothing_armed_nothing_happens():
    faults = ArmedFaults()
    assert fires(faults, "before_operation", "PutBlob") is None
    assert faults.latency_seconds("PutBlob") == 0


@pytest.mark.parametrize(
    ("point", "place", "kind"),
    [
        ("before_commit", "before_commit", StoreFailed),
        ("after_commit_before_reply", "after_commit_before_reply", ClientGone),
        ("drop_connection", "before_operation", ClientGone),
        ("before_reply", "before_reply", ClientGone),
        ("throttle", "before_operation", Refused),
        ("lock_lost", "lock_lost", Refused),
    ],
)
def test_each_point_has_its_place_and_its_consequence(point, place, kind):
    faults = armed(Armed(0, point))
    for other in ("before_operation", "before_commit", "after_commit_before_reply", "elsewhere"):
        if other != place:
            assert fires(faults, other) is None
    assert type(fires(faults, place)) is kind
    assert fires(faults, place) is None


def test_a_fault_is_armed_once_however_often_it_is_told():
    faults = armed(Armed(0, "throttle"))
    faults.arm(Armed(1, "throttle"))
    assert fires(faults, "before_operation") is not None
    assert fires(faults, "before_operation") is None


def test_throttling_says_when_to_come_back():
    refused = fires(armed(Armed(0, "throttle", seconds=3)), "before_operation")
    assert (refused.code, refused.headers) == ("ServerBusy", {"Retry-After": "3"})


def test_a_point_of_any_name_refuses_with_the_code_that_was_armed():
    refused = fires(armed(Armed(0, "lock_lost", code="MessageLockLost")), "lock_lost", "queue/1")
    assert refused.code == "MessageLockLost"


def test_only_for_its_operation_in_any_case():
    faults = armed(Armed(0, "throttle", "putblob"))
    assert fires(faults, "before_operation", "GetBlob") is None
    assert fires(faults, "before_operation", "PutBlob") is not None


def test_points_in_the_store_belong_to_the_operation_that_began():
    faults = armed(Armed(0, "before_commit", "PutBlob"))
    assert fires(faults, "before_operation", "DeleteBlob") is None
    assert fires(faults, "before_commit") is None
    assert fires(faults, "before_operation", "PutBlob") is None
    assert fires(faults, "before_commit") is not None


def test_skipping_counting_and_for_ever():
    faults = armed(Armed(0, "throttle", remaining=2, skip=1))
    found = [fires(faults, "before_operation") is not None for _ in range(5)]
    assert found == [False, True, True, False, False]
    faults = armed(Armed(0, "throttle", remaining=None))
    assert all(fires(faults, "before_operation") for _ in range(50))
    assert faults.armed()[0].hits == 50


def test_chance_comes_from_the_seed():
    def run(seed):
        faults = armed(Armed(0, "throttle", remaining=None, probability=0.3, seed=seed))
        return [fires(faults, "before_operation") is not None for _ in range(100)]

    assert run(1) == run(1) != run(2)
    assert 10 < sum(run(1)) < 60


def test_latencies_add_up():
    faults = armed(Armed(0, "latency", seconds=0.5), Armed(0, "latency", seconds=0.25))
    assert faults.latency_seconds("GetBlob") == 0.75
    assert faults.latency_seconds("GetBlob") == 0


def test_disarming_and_clearing():
    faults = armed(Armed(0, "throttle"), Armed(0, "before_commit"))
    assert faults.disarm(1)
    assert not faults.disarm(1)
    assert fires(faults, "before_operation") is None
    assert [fault.point for fault in faults.armed()] == ["before_commit"]
    faults.clear()
    assert fires(faults, "before_commit") is None


def test_there_is_an_end_to_arming():
    faults = armed(*(Armed(0, "x") for _ in range(armed_max)))
    with pytest.raises(ValueError, match="1000"):
        faults.arm(Armed(armed_max + 1, "x"))
