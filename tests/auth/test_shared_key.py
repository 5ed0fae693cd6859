"""Shared Key and Shared Key Lite against the rules of 'Authorize with Shared Key'.

The strings expected here are written out by hand from the documentation's examples and rules.
"""

import contextlib
import dataclasses
from collections.abc import Mapping
from functools import cmp_to_key

import msgspec
import pytest
from auth_samples import account, at, date_now, key, keys, now, other_key, request_for
from azure.storage.blob._shared import authentication as sdk_authentication
from hypothesis import example, given
from hypothesis import strategies as st

from etagere.auth.authorization import (
    BearerToken,
    KeyCredential,
    Scheme,
    parse_authorization,
)
from etagere.auth.collation import collation_key
from etagere.auth.identity import SharedKeyIdentity
from etagere.auth.request import SignedRequest
from etagere.auth.shared_key import string_to_sign, strings_to_sign, verify
from etagere.auth.signing_key import SigningKey
from etagere.base.clock import Timestamp, seconds
from etagere.base.errors import Refused
from etagere.kernel.dates import format_http_date

full = Scheme.SHARED_KEY
lite = Scheme.SHARED_KEY_LITE


def put_blob(version: str = "2026-02-06", **more: str) -> SignedRequest:
    headers = {
        "Host": "127.0.0.1:10000",
        "x-ms-version": version,
        "x-ms-date": date_now,
        "x-ms-blob-type": "BlockBlob",
        "Content-Length": "5",
        "Content-Type": "text/plain",
        **{name.replace("_", "-"): text for name, text in more.items()},
    }
    return request_for(f"http://127.0.0.1:10000/{account}/c/b%20c", method="PUT", headers=headers)


def signed(request: SignedRequest, scheme: Scheme = full, by: SigningKey = key) -> str:
    return by.signature(string_to_sign(request, scheme))


def refused(
    request: SignedRequest,
    signature: str,
    *,
    scheme: Scheme = full,
    name: str = account,
    moment: Timestamp = now,
) -> Refused:
    with pytest.raises(Refused) as caught:
        verify(request, scheme, name, signature, keys, moment)
    return caught.value


def detail(refusal: Refused) -> str:
    assert refusal.code == "AuthenticationFailed"
    return refusal.details["AuthenticationErrorDetail"]


# The string ----------------------------------------------------------------------------------


def test_the_string_of_a_put() -> None:
    assert string_to_sign(put_blob(), full) == (
        "PUT\n\n\n5\n\ntext/plain\n\n\n\n\n\n\n"
        "x-ms-blob-type:BlockBlob\n"
        f"x-ms-date:{date_now}\n"
        "x-ms-version:2026-02-06\n"
        f"/{account}/{account}/c/b%20c"
    )


def test_every_standard_header_has_its_line() -> None:
    headers = {
        "Content-Encoding": "gzip",
        "Content-Language": "fr",
        "Content-Length": "7",
        "Content-MD5": "1B2M2Y8AsgTpgAmY7PhCfg==",
        "Content-Type": "text/html",
        "Date": date_now,
        "If-Modified-Since": "ims",
        "If-Match": "im",
        "If-None-Match": "inm",
        "If-Unmodified-Since": "ius",
        "Range": "bytes=0-1",
    }
    request = request_for("http://h/a/c/b", method="put", headers=headers, version="2021-12-02")
    assert string_to_sign(request, full).split("\n") == [
        "PUT",
        "gzip",
        "fr",
        "7",
        "1B2M2Y8AsgTpgAmY7PhCfg==",
        "text/html",
        date_now,
        "ims",
        "im",
        "inm",
        "ius",
        "bytes=0-1",
        f"/{account}/a/c/b",
    ]


def test_the_date_line_is_empty_where_x_ms_date_is_sent() -> None:
    request = put_blob(Date=date_now)
    assert string_to_sign(request, full).split("\n")[6] == ""
    assert string_to_sign(request, lite).split("\n")[3] == ""


@pytest.mark.parametrize(
    ("version", "line"),
    [
        ("2009-09-19", "0"),
        ("2014-02-14", "0"),
        ("2015-02-21", ""),
        ("2026-02-06", ""),
    ],
)
def test_a_length_of_zero(version: str, line: str) -> None:
    request = put_blob(version, Content_Length="0")
    assert string_to_sign(request, full).split("\n")[3] == line


@pytest.mark.parametrize(("version", "kept"), [("2015-12-11", False), ("2016-05-31", True)])
def test_empty_x_ms_headers(version: str, kept: bool) -> None:
    request = put_blob(version, x_ms_meta_empty="")
    assert ("x-ms-meta-empty:\n" in string_to_sign(request, full)) is kept


def test_white_space_in_headers_is_trimmed_and_folded() -> None:
    request = put_blob(x_ms_meta_text="  two  words\tand\t more ")
    assert "x-ms-meta-text:two words and more\n" in string_to_sign(request, full)


def test_the_query_is_sorted_lower_cased_and_joined() -> None:
    request = request_for(
        "http://h/a/c?restype=container&Comp=list&include=snapshots&include=metadata"
        "&prefix=%C3%A9%2Fx",
        version="2021-12-02",
    )
    assert string_to_sign(request, full).split("\n")[12:] == [
        f"/{account}/a/c",
        "comp:list",
        "include:metadata,snapshots",
        "prefix:é/x",
        "restype:container",
    ]


def test_lite_signs_few_headers_and_only_comp() -> None:
    request = request_for(
        "http://h/a/c?restype=container&comp=metadata",
        method="PUT",
        headers={
            "Content-MD5": "md5",
            "Content-Type": "text/plain",
            "Content-Length": "9",
            "Date": date_now,
            "x-ms-meta-m1": "v1",
            "x-ms-meta-a2": "v2",
        },
        version="2021-12-02",
    )
    assert string_to_sign(request, lite) == (
        f"PUT\nmd5\ntext/plain\n{date_now}\nx-ms-meta-a2:v2\nx-ms-meta-m1:v1\n"
        f"/{account}/a/c?comp=metadata"
    )


def table_request(**headers: str) -> SignedRequest:
    return request_for(
        f"http://h/{account}/people(PartitionKey='a',RowKey='b%20c')?comp=acl&timeout=5",
        headers={name.replace("_", "-"): text for name, text in headers.items()},
        service="t",
        version="2019-02-02",
    )


def test_tables_sign_no_x_ms_headers_and_the_date_wherever_it_is() -> None:
    resource = f"/{account}/{account}/people(PartitionKey='a',RowKey='b%20c')?comp=acl"
    by_date = table_request(Date="D", Content_Type="application/json", x_ms_version="2019-02-02")
    assert string_to_sign(by_date, full) == f"GET\n\napplication/json\nD\n{resource}"
    assert string_to_sign(by_date, lite) == f"D\n{resource}"
    by_x_ms_date = table_request(Date="D", x_ms_date="X", Content_MD5="m")
    assert string_to_sign(by_x_ms_date, full) == f"GET\nm\n\nX\n{resource}"
    assert string_to_sign(by_x_ms_date, lite) == f"X\n{resource}"


def test_host_style_has_the_account_once() -> None:
    request = request_for("http://x.blob.core.windows.net/c/b", name="x", version="2021-12-02")
    assert string_to_sign(request, full).endswith("\n/x/c/b")


# What is accepted ----------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", [full, lite])
@pytest.mark.parametrize("service", ["b", "q", "t", "f"])
@pytest.mark.parametrize(("by", "index"), [(key, 0), (other_key, 1)])
def test_both_keys_open_every_service(
    scheme: Scheme, service: str, by: SigningKey, index: int
) -> None:
    request = msgspec.structs.replace(put_blob(), service=service)
    identity = verify(request, scheme, account, signed(request, scheme, by), keys, now)
    assert identity == SharedKeyIdentity(account, index)


def test_headers_may_be_signed_in_the_order_of_a_culture() -> None:
    """Ordinally `_` follows the digits and `-` comes first; in a culture it is otherwise."""
    request = put_blob()
    names = {"x-ms-meta-a1": "1", "x-ms-meta-a_b": "2", "x-ms-meta-a-a": "3"}
    request = msgspec.structs.replace(request, headers={**request.headers, **names})
    strings = list(strings_to_sign(request, full))
    ordinal = "x-ms-meta-a-a:3\nx-ms-meta-a1:1\nx-ms-meta-a_b:2\n"
    culture = "x-ms-meta-a_b:2\nx-ms-meta-a1:1\nx-ms-meta-a-a:3\n"
    assert ordinal in strings[0]
    assert any(culture in text for text in strings[1:])
    for text in strings:
        verify(request, full, account, key.signature(text), keys, now)


def test_a_plus_in_the_query_may_be_signed_either_way() -> None:
    url = f"http://h/{account}/c?comp=list&prefix=a+b%2Bc"
    headers = {"x-ms-date": date_now}
    request = request_for(url, headers=headers, version="2021-12-02")
    decoded_by_a_form = msgspec.structs.replace(
        request, query=(("comp", "list"), ("prefix", "a b+c"))
    )
    for shown in (request, decoded_by_a_form):
        for signed_as in ("a+b+c", "a b+c"):
            text = (
                "GET\n\n\n\n\n\n\n\n\n\n\n\n"
                f"x-ms-date:{date_now}\n/{account}/{account}/c\ncomp:list\nprefix:{signed_as}"
            )
            verify(shown, full, account, key.signature(text), keys, now)


def test_a_value_may_be_signed_unfolded() -> None:
    request = put_blob(x_ms_meta_text="two  words")
    as_sent = string_to_sign(request, full).replace("two words", "two  words")
    verify(request, full, account, key.signature(as_sent), keys, now)


@pytest.mark.parametrize("sent", [account, f"{account}-secondary"])
@pytest.mark.parametrize("signed_as", [account, f"{account}-secondary"])
def test_the_path_of_a_secondary_may_name_either(sent: str, signed_as: str) -> None:
    headers = {"x-ms-date": date_now}
    request = request_for(
        f"http://h/{sent}/c/b", headers=headers, version="2021-12-02", secondary=True
    )
    text = f"GET{chr(10) * 12}x-ms-date:{date_now}\n/{account}/{signed_as}/c/b"
    verify(request, full, account, key.signature(text), keys, now)


def test_a_primary_may_not_be_signed_as_a_secondary() -> None:
    headers = {"x-ms-date": date_now}
    request = request_for(f"http://h/{account}/c/b", headers=headers, version="2021-12-02")
    text = f"GET{chr(10) * 12}x-ms-date:{date_now}\n/{account}/{account}-secondary/c/b"
    refused(request, key.signature(text))


@pytest.mark.parametrize("path", ["", "/"])
def test_the_root_may_be_signed_with_and_without_its_slash(path: str) -> None:
    request = request_for(
        "http://h/?comp=list", headers={"x-ms-date": date_now}, version="2021-12-02"
    )
    text = f"GET{chr(10) * 12}x-ms-date:{date_now}\n/{account}{path}\ncomp:list"
    verify(request, full, account, key.signature(text), keys, now)


# What is refused -----------------------------------------------------------------------------


def test_a_wrong_signature_is_answered_with_the_servers_string() -> None:
    request = put_blob()
    shown = detail(refused(request, SigningKey(b"another").signature("x")))
    assert f"Server used following string to sign: '{string_to_sign(request, full)}'" in shown
    table = table_request(x_ms_date=date_now)
    shown = detail(refused(table, "c2ln", scheme=lite))
    assert string_to_sign(table, lite) in shown


def test_without_keys_nothing_is_genuine() -> None:
    request = put_blob()
    with pytest.raises(Refused, match="AuthenticationFailed"):
        verify(request, full, account, signed(request), (), now)


def test_another_accounts_name_is_refused() -> None:
    request = put_blob()
    refused(request, signed(request), name="other")
    refused(request, signed(request), name=f"{account}-secondary")


def without_dates(request: SignedRequest, **dates: str) -> SignedRequest:
    headers = {n: v for n, v in request.headers.items() if n not in ("date", "x-ms-date")}
    return msgspec.structs.replace(
        request, headers={**headers, **{n.replace("_", "-"): v for n, v in dates.items()}}
    )


@pytest.mark.parametrize(
    ("dates", "said"),
    [
        ({}, "not specified"),
        ({"date": ""}, "not specified"),
        ({"x_ms_date": "yesterday"}, "not a date"),
        ({"x_ms_date": "2026-03-01T12:00:00Z"}, "not a date"),
        ({"x_ms_date": "x" * 10_000}, "not a date"),
        ({"date": "Sun, 99 Mar 2026 12:00:00 GMT"}, "not a date"),
        # x-ms-date is the one that counts, even where Date would do.
        ({"x_ms_date": "Sun, 01 Mar 2026 10:00:00 GMT", "date": date_now}, "too old"),
    ],
)
def test_dates_that_are_none(dates: Mapping[str, str], said: str) -> None:
    request = without_dates(put_blob(), **dates)
    assert said in detail(refused(request, signed(request)))


@pytest.mark.parametrize("name", ["date", "x_ms_date"])
@pytest.mark.parametrize(
    ("offset", "said"),
    [
        (-15 * 60 - 1, "too old"),
        (-15 * 60, None),
        (0, None),
        (15 * 60, None),
        (15 * 60 + 1, "future"),
    ],
)
def test_the_clock_may_be_a_quarter_of_an_hour_off(
    name: str, offset: int, said: str | None
) -> None:
    text = format_http_date(Timestamp(now + seconds(offset)))
    request = without_dates(put_blob(), **{name: text})
    if said is None:
        verify(request, full, account, signed(request), keys, now)
    else:
        assert said in detail(refused(request, signed(request)))


def test_old_date_formats_are_read() -> None:
    for text in ("Sunday, 01-Mar-26 12:00:00 GMT", "Sun Mar  1 12:00:00 2026"):
        request = without_dates(put_blob(), date=text)
        verify(request, full, account, signed(request), keys, at("2026-03-01T12:00:01Z"))


def test_every_bit_of_the_signature_counts() -> None:
    request = put_blob()
    genuine = signed(request)
    for index in range(len(genuine)):
        for bit in range(7):
            forged = chr(ord(genuine[index]) ^ (1 << bit))
            refused(request, genuine[:index] + forged + genuine[index + 1 :])
    for forged in ("", genuine[:-1], genuine + "=", genuine * 2, "é" * 44, "\udc80"):
        refused(request, forged)


header_names = st.sampled_from(
    [
        "content-encoding",
        "content-language",
        "content-length",
        "content-md5",
        "content-type",
        "if-modified-since",
        "if-match",
        "if-none-match",
        "if-unmodified-since",
        "range",
        "x-ms-version",
        "x-ms-blob-type",
        "x-ms-meta-a",
        "x-ms-meta-a_b",
        "x-ms-lease-id",
    ]
)
visible = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=8)
parameters = st.lists(
    st.tuples(st.sampled_from(["comp", "restype", "prefix", "timeout", "blockid"]), visible),
    max_size=4,
    unique_by=lambda pair: pair[0],
)


@given(
    headers=st.dictionaries(header_names, visible, max_size=6),
    query=parameters,
    service=st.sampled_from("bqtf"),
    scheme=st.sampled_from(Scheme),
    changed=st.sampled_from(["method", "path", "header", "query", "account", "date"]),
    data=st.data(),
)
def test_no_signed_part_may_be_changed(
    headers: dict[str, str],
    query: list[tuple[str, str]],
    service: str,
    scheme: Scheme,
    changed: str,
    data: st.DataObject,
) -> None:
    raw_query = "&".join(f"{name}={text.encode().hex()}" for name, text in query)
    request = request_for(
        f"http://h/{account}/c/b?{raw_query}",
        method="PUT",
        headers={"x-ms-date": date_now, **headers},
        service=service,
        version="2021-12-02",
    )
    signature = signed(request, scheme)
    verify(request, scheme, account, signature, keys, now)
    forged = request
    if changed == "method":
        forged = msgspec.structs.replace(request, method="DELETE")
    elif changed == "path":
        forged = msgspec.structs.replace(request, raw_path=request.raw_path + "c")
    elif changed == "header" and headers:
        name = data.draw(st.sampled_from(sorted(headers)))
        forged = msgspec.structs.replace(
            request, headers={**request.headers, name: headers[name] + "9"}
        )
    elif changed == "query" and query:
        name = data.draw(st.sampled_from([name for name, _ in query]))
        forged = msgspec.structs.replace(
            request, query=tuple((n, v + "9" if n == name else v) for n, v in request.query)
        )
    elif changed == "account":
        forged = msgspec.structs.replace(request, account="another")
    elif changed == "date":
        later = format_http_date(Timestamp(now + seconds(1)))
        forged = msgspec.structs.replace(request, headers={**request.headers, "x-ms-date": later})
    if set(strings_to_sign(forged, scheme)).isdisjoint(strings_to_sign(request, scheme)):
        refused(forged, signature, scheme=scheme, name=forged.account)
    else:
        # The scheme does not sign this part (tables, Lite), or nothing was changed.
        assert changed in ("header", "query", "method")


# Parsing the header --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "credential"),
    [
        ("SharedKey a:c2ln", KeyCredential(full, "a", "c2ln")),
        ("sharedkey  a:c2ln ", KeyCredential(full, "a", "c2ln")),
        ("SharedKeyLite a:s:x", KeyCredential(lite, "a", "s:x")),
        ("Bearer a.b.c", BearerToken("a.b.c")),
        ("bearer a.b.c", BearerToken("a.b.c")),
    ],
)
def test_headers_that_are_understood(header: str, credential: KeyCredential | BearerToken) -> None:
    assert parse_authorization(header) == credential


@pytest.mark.parametrize(
    "header",
    [
        "",
        " ",
        "SharedKey",
        "SharedKey ",
        "SharedKey a",
        "SharedKey a:",
        "SharedKey :c2ln",
        "SharedKey a:c2 ln",
        "SharedKey a: c2ln",
        "SharedKeyX a:c2ln",
        "Basic dXNlcjpwYXNz",
        "Bearer",
        "Bearer ",
        "Bearer a b",
        "a:c2ln",
    ],
)
def test_headers_that_are_not(header: str) -> None:
    with pytest.raises(Refused) as caught:
        parse_authorization(header)
    assert caught.value.code == "InvalidAuthenticationInfo"


@given(st.one_of(st.text(max_size=200), st.builds("SharedKey {}".format, st.text(max_size=99))))
@example("SharedKey \udc80:\udc80")
@example("Bearer " + "x" * 100_000)
def test_any_header_is_read_or_refused(header: str) -> None:
    credential = None
    with contextlib.suppress(Refused):
        credential = parse_authorization(header)
    if isinstance(credential, KeyCredential):
        request = request_for("http://h/a/c", headers={"x-ms-date": date_now})
        with pytest.raises(Refused, match="AuthenticationFailed"):
            verify(request, credential.scheme, credential.account, credential.signature, keys, now)


anything = st.text(max_size=30)


@given(
    method=anything,
    path=anything,
    raw_query=anything,
    query=st.lists(st.tuples(anything, anything), max_size=4),
    headers=st.dictionaries(anything, anything, max_size=5),
    service=st.sampled_from("bqtf"),
    scheme=st.sampled_from(Scheme),
    version=anything,
    secondary=st.booleans(),
)
def test_any_request_is_refused_and_never_fails(
    method: str,
    path: str,
    raw_query: str,
    query: list[tuple[str, str]],
    headers: dict[str, str],
    service: str,
    scheme: Scheme,
    version: str,
    secondary: bool,
) -> None:
    request = SignedRequest(
        method=method,
        raw_path=path,
        query=tuple(query),
        raw_query=raw_query,
        headers={**headers, "x-ms-date": date_now},
        account=account,
        service=service,
        version=version,
        secure=False,
        client_ip="::1",
        secondary=secondary,
    )
    refused(request, "c2lnbmF0dXJl", scheme=scheme)
    verify(request, scheme, account, signed(request, scheme), keys, now)


# Collation -----------------------------------------------------------------------------------

names = st.text("abcdefghijklmnopqrstuvwxyz0123456789-_'!#$%&*+.^`|~", max_size=8).map(
    "x-ms-meta-".__add__
)


@given(st.lists(names, unique=True, max_size=8))
@example(["x-ms-meta-a-b", "x-ms-meta-ab", "x-ms-meta-a_b", "x-ms-meta-a1"])
def test_the_order_is_the_sdks(header_names: list[str]) -> None:
    expected = sorted(header_names, key=cmp_to_key(sdk_authentication.compare))
    assert sorted(header_names, key=collation_key) == expected


def test_identities_are_values() -> None:
    assert dataclasses.astuple(SharedKeyIdentity("a", 1)) == ("a", 1)
