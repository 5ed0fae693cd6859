from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etagere.base.clock import Timestamp, ticks_per_second, timestamp_never
from etagere.kernel.dates import (
    format_http_date,
    format_iso,
    format_iso_seconds,
    holds_several_dates,
    parse_http_date,
    parse_iso,
)

epoch = datetime(1970, 1, 1, tzinfo=UTC)
moments = st.datetimes(timezones=st.just(UTC))


def ticks(moment: datetime) -> Timestamp:
    return Timestamp((moment - epoch) // timedelta(microseconds=1) * 10)


sample = ticks(datetime(1994, 11, 6, 8, 49, 37, tzinfo=UTC))


@pytest.mark.parametrize(
    "text",
    [
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "sun, 06 nov 1994 08:49:37 gmt",
        "  Sun, 06 Nov 1994 08:49:37 GMT ",
        "Mon, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
        "Sun Nov 06 08:49:37 1994",
    ],
)
def test_three_spellings_of_one_moment(text: str):
    assert parse_http_date(text) == sample
    assert not holds_several_dates(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "0",
        "1994-11-06T08:49:37Z",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 +0000",
        "Sun, 06 Nov 1994 24:49:37 GMT",
        "Sun, 06 Nov 1994 08:60:37 GMT",
        "Sun, 06 Nov 1994 08:49:60 GMT",
        "Sun, 31 Nov 1994 08:49:37 GMT",
        "Sun, 29 Feb 1900 08:49:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 06 Foo 1994 08:49:37 GMT",
        "Sun, 06 Nov 0000 08:49:37 GMT",
        "Sun, ٠٦ Nov 1994 08:49:37 GMT",
        "Sun Nov    08:49:37 1994",
    ],
)
def test_what_is_no_date(text: str):
    assert parse_http_date(text) is None
    assert not holds_several_dates(text)


@pytest.mark.parametrize(
    "text",
    [
        "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT,Mon, 07 Nov 1994 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994, Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT, Sun Nov  6 08:49:37 1994",
    ],
)
def test_two_dates_in_one_header(text: str):
    assert parse_http_date(text) is None
    assert holds_several_dates(text)


def test_a_date_and_rubbish_is_rubbish():
    assert not holds_several_dates("Sun, 06 Nov 1994 08:49:37 GMT, null")


def test_two_digit_years():
    assert parse_http_date("Friday, 01-Jan-69 00:00:00 GMT") == ticks(
        datetime(1969, 1, 1, tzinfo=UTC)
    )
    assert parse_http_date("Friday, 01-Jan-68 00:00:00 GMT") == ticks(
        datetime(2068, 1, 1, tzinfo=UTC)
    )


def test_never_is_spelt_as_the_services_spell_it():
    assert format_http_date(timestamp_never) == "Fri, 31 Dec 9999 23:59:59 GMT"
    assert format_iso(timestamp_never) == "9999-12-31T23:59:59.9999999Z"


def test_the_first_and_the_last_year():
    assert parse_http_date("Fri, 31 Dec 9999 23:59:59 GMT") == timestamp_never - 9_999_999
    assert parse_http_date("Mon, 01 Jan 0001 00:00:00 GMT") == ticks(datetime(1, 1, 1, tzinfo=UTC))


@given(moments)
def test_http_dates_agree_with_the_library(moment: datetime):
    whole = moment.replace(microsecond=0)
    text = format_http_date(ticks(moment))
    assert text == format_datetime(whole, usegmt=True)
    assert parse_http_date(text) == ticks(whole)


@given(moments, st.integers(0, 9))
def test_iso_dates_agree_with_the_library(moment: datetime, extra_ticks: int):
    moment_ticks = Timestamp(ticks(moment) + extra_ticks)
    text = format_iso(moment_ticks)
    assert text == f"{moment:%H:%M:%S.%f}".join(
        (f"{moment.date().isoformat()}T", f"{extra_ticks}Z")
    )
    assert parse_iso(text) == moment_ticks
    assert parse_iso(format_iso_seconds(moment_ticks)) == (
        moment_ticks - moment_ticks % ticks_per_second
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2020-02-29", datetime(2020, 2, 29, tzinfo=UTC)),
        ("2020-02-29T10:11Z", datetime(2020, 2, 29, 10, 11, tzinfo=UTC)),
        ("2020-02-29T10:11", datetime(2020, 2, 29, 10, 11, tzinfo=UTC)),
        ("2020-02-29T10:11:12Z", datetime(2020, 2, 29, 10, 11, 12, tzinfo=UTC)),
        ("2020-02-29T10:11:12+01:30", datetime(2020, 2, 29, 8, 41, 12, tzinfo=UTC)),
        ("2020-02-29T10:11:12-01:30", datetime(2020, 2, 29, 11, 41, 12, tzinfo=UTC)),
        ("2020-02-29T10:11:12.5Z", datetime(2020, 2, 29, 10, 11, 12, 500_000, tzinfo=UTC)),
    ],
)
def test_iso_forms(text: str, expected: datetime):
    assert parse_iso(text) == ticks(expected)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2020",
        "2020-13-01",
        "2019-02-29",
        "2020-02-29T10Z",
        "2020-02-29T25:00Z",
        "2020-02-29T10:11:12.12345678Z",
        "2020-02-29T10:11:12+15:00",
        "2020-02-29 10:11:12Z",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
        "2020-02-29Z",
        "2020-02-29\n",
    ],
)
def test_what_is_no_iso_date(text: str):
    assert parse_iso(text) is None


@given(st.text(max_size=80))
def test_any_text_is_read_without_an_error(text: str):
    parse_http_date(text)
    parse_iso(text)
    holds_several_dates(text)


@given(st.text(alphabet="SunMoyNv,0169- :GMT.Z+T", max_size=60))
def test_almost_dates_are_read_without_an_error(text: str):
    parse_http_date(text)
    parse_iso(text)
    holds_several_dates(text)
