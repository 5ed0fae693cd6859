"""The table of locks beside a plain list."""

from hypothesis import given
from hypothesis import strategies as st

from etagere.base.clock import Timestamp
from etagere.services.bus.locks import Lock, LockStatus, LockTable, new_custody
from etagere.services.bus.settlement import Held

steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["add", "add run", "remove run", "renew", "remove", "settle", "restore", "time", "back"]
        ),
        st.integers(0, 20),
    ),
    max_size=60,
)


@given(steps, st.sampled_from([10, 30]))
def test_what_runs_out_is_what_should(steps, duration):
    table, locks, now, made = LockTable(), [], Timestamp(1000), 0
    for what, n in steps:
        lock = locks[n % len(locks)] if locks else None
        if what == "add":
            made += 1
            held = Held(made, 1, 0, n, None, n % 2, None)
            custody = new_custody(made.to_bytes(16, "big"), now, duration, n)
            lock = Lock(custody.token, custody.until, held, None, None)
            assert lock.custody == custody
            table.add(lock)
            locks.append(lock)
        elif what == "add run":
            run = []
            for _ in range(n + 1):
                made += 1
                token = made.to_bytes(16, "big")
                run.append(
                    Lock(token, now + duration, Held(made, 1, 0, n, None, 0, None), None, None)
                )
            table.add_run([x.token for x in run], run)
            locks += run
        elif what == "remove run":
            run = [x for x in locks if not x.held.state][:n]
            table.remove_run(run)
            locks = [x for x in locks if x not in run]
        elif what == "renew" and lock and table.good(lock.token, now):
            assert table.renew(lock, now, duration) == now + duration
        elif what == "remove" and lock:
            table.remove(lock)
            locks.remove(lock)
        elif what == "settle" and lock:
            lock.status = LockStatus.settling
        elif what == "restore" and lock:
            table.restore(lock)
        elif what in ("time", "back"):
            # Clocks are set back now and then.
            now = Timestamp(max(1, now + (n if what == "time" else -n)))
            duration = duration if n else 15
        expected = {x for x in locks if x.status is LockStatus.held and x.until <= now}
        good = {x for x in locks if x.status is LockStatus.held and x.until > now}
        assert {x for x in locks if table.good(x.token, now)} == good
        plain = [x for x in locks if x in good and not x.held.state]
        assert table.plain_ones([x.token for x in plain], now) == plain
        others = [x.token for x in locks if x not in plain]
        for one in [*others, b"?", *[x.token for x in plain[:1]]]:
            assert table.plain_ones([*[x.token for x in plain], one], now) is None
        assert set(table.run_out(now)) == expected
        later = [x.until for x in good]
        assert table.due <= min(later, default=table.due)
        assert len(table) == len(locks)
        for x in locks:
            if x.held.state:
                assert table.is_locked_aside(x.held.number)
        for x in expected:  # whoever is told ends them
            table.remove(x)
            locks.remove(x)
