"""The strings that tokens sign, against the tables of the documentation written down again."""

import pytest
from auth_samples import account
from sas_samples import Fields, carrying

from etagere.auth.request import ResourceName
from etagere.auth.sas import parse, string_to_sign
from etagere.auth.sas_strings import strings_to_sign
from etagere.base.errors import Refused

# Every field has a value that names it, so that a string shows which fields it has, and where.
values: Fields = {
    "ss": "b",
    "srt": "o",
    "sp": "r",
    "st": "2026-03-01",
    "se": "2026-04-01T00:00Z",
    "sip": "1.2.3.4-1.2.3.9",
    "spr": "https,http",
    "si": "policy",
    "rscc": "cc",
    "rscd": "cd",
    "rsce": "ce",
    "rscl": "cl",
    "rsct": "ct",
    "spk": "pk1",
    "srk": "rk1",
    "epk": "pk2",
    "erk": "rk2",
    "skoid": "oid",
    "sktid": "tid",
    "skt": "2026-02-01",
    "ske": "2026-05-01",
    "sks": "b",
    "skv": "2020-02-10",
    "saoid": "said",
    "suoid": "suid",
    "scid": "cid",
}
delegated = ("skoid", "sktid", "skt", "ske", "sks", "skv")
agents = ("saoid", "suoid", "scid")


def string(fields: Fields, name: ResourceName) -> list[str]:
    sas = parse({**fields, "sig": "x"}.items())
    return string_to_sign(sas, carrying("", name), name).split("\n")


def named(version: str, items: str, canonical: str, **more: str) -> list[str]:
    """The lines that an item list of the documentation stands for."""
    lines = {**values, "sv": version, "canon": canonical, **more}
    return [lines.get(item, "") if item != "-" else "" for item in items.split()]


def service_fields(version: str, **more: str) -> Fields:
    fields = {n: v for n, v in values.items() if n not in (*delegated, *agents, "ss", "srt")}
    if version:
        fields["sv"] = version
    return {**fields, **more}


blob_rows = [
    ("", "sp st se canon si"),
    ("2012-02-12", "sp st se canon si sv"),
    ("2013-08-15", "sp st se canon si sv rscc rscd rsce rscl rsct"),
    ("2014-02-14", "sp st se canon si sv rscc rscd rsce rscl rsct"),
    ("2015-02-21", "sp st se canon si sv rscc rscd rsce rscl rsct"),
    ("2015-04-05", "sp st se canon si sip spr sv rscc rscd rsce rscl rsct"),
    ("2018-03-28", "sp st se canon si sip spr sv rscc rscd rsce rscl rsct"),
    ("2018-11-09", "sp st se canon si sip spr sv sr - rscc rscd rsce rscl rsct"),
    ("2020-10-02", "sp st se canon si sip spr sv sr - rscc rscd rsce rscl rsct"),
    ("2020-12-06", "sp st se canon si sip spr sv sr - ses rscc rscd rsce rscl rsct"),
    ("2026-10-06", "sp st se canon si sip spr sv sr - ses rscc rscd rsce rscl rsct"),
    ("2031-01-01", "sp st se canon si sip spr sv sr - ses rscc rscd rsce rscl rsct"),
]


def prefix(version: str, service: str) -> str:
    return f"/{service}/{account}" if version >= "2015-02-21" else f"/{account}"


@pytest.mark.parametrize(("version", "items"), blob_rows)
@pytest.mark.parametrize(
    ("sr", "path", "rest"), [("b", "dir/b é", "/c/dir/b é"), ("c", "", "/c"), ("c", "dir/b", "/c")]
)
def test_blob(version: str, items: str, sr: str, path: str, rest: str) -> None:
    more = {"ses": "scope"} if version >= "2020-12-06" else {}
    fields = service_fields(version, sr=sr, **more)
    expected = named(version, items, prefix(version, "blob") + rest, sr=sr, **more)
    assert string(fields, ResourceName("b", "c", path)) == expected


@pytest.mark.parametrize(
    ("version", "items"),
    [row for row in blob_rows if row[0] < "2018-11-09"]
    + [
        ("2019-02-02", "sp st se canon si sip spr sv rscc rscd rsce rscl rsct"),
        ("2020-12-06", "sp st se canon si sip spr sv rscc rscd rsce rscl rsct"),
        ("2026-10-06", "sp st se canon si sip spr sv rscc rscd rsce rscl rsct"),
    ],
)
@pytest.mark.parametrize(("sr", "rest"), [("f", "/s/d/f"), ("s", "/s")])
def test_file(version: str, items: str, sr: str, rest: str) -> None:
    expected = named(version, items, prefix(version, "file") + rest)
    assert string(service_fields(version, sr=sr), ResourceName("f", "s", "d/f")) == expected


@pytest.mark.parametrize(
    ("version", "items"),
    [
        ("", "sp st se canon si"),
        ("2012-02-12", "sp st se canon si sv"),
        ("2015-02-21", "sp st se canon si sv"),
        ("2015-04-05", "sp st se canon si sip spr sv"),
        ("2026-10-06", "sp st se canon si sip spr sv"),
    ],
)
def test_queue_and_table(version: str, items: str) -> None:
    fields = service_fields(version)
    expected = named(version, items, prefix(version, "queue") + "/q1")
    assert string(fields, ResourceName("q", "q1")) == expected
    expected = named(version, items + " spk srk epk erk", prefix(version, "table") + "/people")
    assert string({**fields, "tn": "People"}, ResourceName("t", "People")) == expected


@pytest.mark.parametrize(
    ("version", "items"),
    [
        ("2015-04-05", "sp ss srt st se sip spr sv"),
        ("2020-10-02", "sp ss srt st se sip spr sv"),
        ("2020-12-06", "sp ss srt st se sip spr sv ses"),
        ("2026-10-06", "sp ss srt st se sip spr sv ses"),
    ],
)
@pytest.mark.parametrize("service", ["b", "q", "t", "f"])
def test_account(version: str, items: str, service: str) -> None:
    fields = {n: v for n, v in values.items() if n not in (*delegated, *agents)}
    fields["sv"] = version
    if version >= "2020-12-06":
        fields["ses"] = "scope"
    # The account is the first line, and the last line ends with a line break too.
    expected = [account, *named(version, items, "", ses="scope"), ""]
    assert string(fields, ResourceName(service, "anything", "at/all")) == expected


delegation_head = "sp st se canon skoid sktid skt ske sks skv"
delegation_tail = "rscc rscd rsce rscl rsct"


@pytest.mark.parametrize(
    ("version", "items"),
    [
        ("2018-11-09", f"{delegation_head} sip spr sv sr - {delegation_tail}"),
        ("2019-12-12", f"{delegation_head} sip spr sv sr - {delegation_tail}"),
        ("2020-02-10", f"{delegation_head} saoid suoid scid sip spr sv sr - {delegation_tail}"),
        ("2020-10-02", f"{delegation_head} saoid suoid scid sip spr sv sr - {delegation_tail}"),
        ("2020-12-06", f"{delegation_head} saoid suoid scid sip spr sv sr - ses {delegation_tail}"),
        (
            "2025-07-05",
            (
                f"{delegation_head} saoid suoid scid skdutid sduoid sip spr sv sr - ses "
                f"{delegation_tail}"
            ),
        ),
        (
            "2026-04-06",
            (
                f"{delegation_head} saoid suoid scid skdutid sduoid sip spr sv sr - ses - - "
                f"{delegation_tail}"
            ),
        ),
    ],
)
def test_blob_delegation(version: str, items: str) -> None:
    fields = service_fields(version, sr="b")
    del fields["si"]
    fields |= {name: values[name] for name in (*delegated, *agents)}
    user = {"skdutid": "utid", "sduoid": "uoid"} if version >= "2025-07-05" else {}
    expected = named(version, items, f"/blob/{account}/c/b", sr="b", **user)
    assert string({**fields, **user}, ResourceName("b", "c", "b")) == expected


def test_queue_file_and_table_delegation() -> None:
    fields = service_fields("2026-02-06")
    del fields["si"]
    fields |= {name: values[name] for name in delegated} | {"skdutid": "utid", "sduoid": "uoid"}
    head = f"{delegation_head} skdutid sduoid sip spr sv"
    for name, items, canonical in (
        (ResourceName("q", "q1"), head, f"/queue/{account}/q1"),
        (ResourceName("f", "s", "f"), f"{head} {delegation_tail}", f"/file/{account}/s/f"),
        (ResourceName("t", "T"), f"{head} spk srk epk erk", f"/table/{account}/t"),
    ):
        expected = named("2026-02-06", items, canonical, skdutid="utid", sduoid="uoid")
        assert string({**fields, "sr": "f"}, name) == expected


@pytest.mark.parametrize("version", ["2026-04-06", "2026-10-06"])
def test_signed_headers_and_parameters(version: str) -> None:
    fields = service_fields(version, sr="b", srh="X-ms-a,b", srq="comp,none")
    del fields["si"]
    fields |= {name: values[name] for name in delegated}
    name = ResourceName("b", "c", "b")
    request = carrying("comp=x", name, headers={"x-ms-a": "1", "b": "2 3"})
    sas = parse({**fields, "sig": "x"}.items())
    text = string_to_sign(sas, request, name)
    assert "\nX-ms-a:1\nb:2 3\n\n\ncomp:x\nnone:\ncc\n" in text
    # They are signed, or the token is not good: no string leaves them out.
    assert all("X-ms-a:1" in text for text in strings_to_sign(sas, request, name))


def test_the_newest_lines_may_be_there_or_not() -> None:
    """SDKs disagree about the version that brought them; nothing said is ever left unsigned."""
    fields = service_fields("2021-12-02", sr="b")
    del fields["si"]
    fields |= {name: values[name] for name in delegated}
    name = ResourceName("b", "c", "b")

    def lines(**more: str) -> list[int]:
        sas = parse({**fields, **more, "sig": "x"}.items())
        return [len(t.split("\n")) for t in strings_to_sign(sas, carrying("", name), name)]

    assert lines() == [24, 28, 26]
    assert lines(sv="2025-07-05") == [26, 28, 24]
    assert lines(sv="2026-04-06") == [28, 26, 24]
    assert lines(sv="2020-10-02") == [23]
    assert lines(sduoid="u") == [28, 26]
    assert lines(skdutid="u", sv="2025-07-05") == [26, 28]
    assert lines(srh="h") == [28 + 1]
    assert lines(sv="2020-10-02", sduoid="u") == []


@pytest.mark.parametrize(
    ("sr", "snapshot", "version_id", "line"),
    [
        ("b", "", "", ""),
        ("b", "SNAP", "", ""),
        ("b", "", "VER", ""),
        ("bs", "SNAP", "", "SNAP"),
        ("bs", "", "VER", ""),
        ("bv", "", "VER", "VER"),
        ("c", "SNAP", "VER", ""),
    ],
)
def test_snapshots_and_versions(sr: str, snapshot: str, version_id: str, line: str) -> None:
    name = ResourceName("b", "c", "b", snapshot, version_id)
    assert string(service_fields("2021-12-02", sr=sr), name)[9] == line


@pytest.mark.parametrize(
    ("depth", "path", "canonical"),
    [
        ("0", "a/b", "/c"),
        ("1", "a/b/c", "/c/a"),
        ("2", "a/b/c", "/c/a/b"),
        ("2", "a/b", "/c/a/b"),
        ("3", "a/b", "/c/a/b"),
        ("63", "a", "/c/a"),
    ],
)
def test_directories(depth: str, path: str, canonical: str) -> None:
    fields = service_fields("2021-12-02", sr="d", sdd=depth)
    name = ResourceName("b", "c", path)
    assert string(fields, name)[3] == f"/blob/{account}{canonical}"


def test_the_root_directory_may_be_signed_with_its_slash() -> None:
    fields = service_fields("2021-12-02", sr="d", sdd="0")
    name = ResourceName("b", "c", "a/b")
    sas = parse({**fields, "sig": "x"}.items())
    canonical = [t.split("\n")[3] for t in strings_to_sign(sas, carrying("", name), name)]
    root = f"/blob/{account}/c"
    assert canonical == [root, f"{root}/", f"{root}//"]


@pytest.mark.parametrize(
    ("sdd", "code"),
    [
        (None, "QueryParameterSasMandatory"),
        ("", "QueryParameterSasMandatory"),
        ("x", "QueryParameterSddInvalid"),
        ("-1", "QueryParameterSddInvalid"),
        ("64", "QueryParameterSddInvalid"),
        ("²", "QueryParameterSddInvalid"),
        ("9" * 5000, "QueryParameterSddInvalid"),
    ],
)
def test_depths_that_are_none(sdd: str | None, code: str) -> None:
    fields = service_fields("2021-12-02", sr="d", sig="x")
    if sdd is not None:
        fields["sdd"] = sdd
    with pytest.raises(Refused) as caught:
        parse(fields.items())
    assert caught.value.code == code


def test_the_service_itself_is_signed_as_the_root_container() -> None:
    """As the live service's own error text shows it."""
    assert string(service_fields("2021-12-02", sr="c"), ResourceName("b"))[3] == (
        f"/blob/{account}/$root"
    )
