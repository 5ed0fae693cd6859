"""Blob Batch over HTTP."""

import re

import pytest
from azure.storage.blob import PartialBatchErrorException

from .serving import RawClient, Server


def batch(raw: RawClient, *requests: str, boundary: str = "batch_1", path: str = "/", **query: str):
    parts = [
        f"--{boundary}\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n"
        f"Content-ID: {index}\r\n\r\n{request}\r\n"
        for index, request in enumerate(requests)
    ]
    body = "".join(parts) + f"--{boundary}--\r\n"
    headers = {"Content-Type": f"multipart/mixed; boundary={boundary}"}
    return raw("POST", path, body, headers, comp="batch", **query)


def delete(raw: RawClient, path: str) -> str:
    return f"DELETE /devstoreaccount1{path}?{raw.sas} HTTP/1.1\r\nContent-Length: 0\r\n"


def test_parts_are_independent(raw: RawClient, container: str) -> None:
    raw.put_blob(f"{container}/a")
    raw.put_blob(f"{container}/c")
    reply = batch(raw, *(delete(raw, f"{container}/{name}") for name in "abc"))
    assert reply.status == 202, reply.text
    assert reply.text.count("HTTP/1.1 202") == 2
    assert reply.text.count("HTTP/1.1 404") == 1
    assert "<Code>BlobNotFound</Code>" in reply.text
    assert [f"Content-ID: {n}" in reply.text for n in range(3)] == [True] * 3
    assert raw("HEAD", f"{container}/a").status == 404


def test_each_part_has_its_own_authorization(raw: RawClient, container: str) -> None:
    raw.put_blob(f"{container}/a")
    unsigned = f"DELETE /devstoreaccount1{container}/a HTTP/1.1\r\n"
    reply = batch(raw, unsigned)
    assert reply.status == 202
    assert "HTTP/1.1 401" in reply.text
    assert raw("HEAD", f"{container}/a").status == 200


def test_in_a_container(raw: RawClient, container: str) -> None:
    raw.put_blob(f"{container}/a")
    reply = batch(raw, delete(raw, f"{container}/a"), path=container, restype="container")
    assert "HTTP/1.1 202" in reply.text


@pytest.mark.parametrize(
    "requests",
    [
        [],
        ["GET /devstoreaccount1/things/a HTTP/1.1\r\n"],
        ["nonsense\r\n"],
        ["DELETE /devstoreaccount1/things/a HTTP/1.1\r\n\r\nbody"],
        [
            "DELETE /devstoreaccount1/things/a HTTP/1.1\r\n",
            "PUT /devstoreaccount1/things/a?comp=tier HTTP/1.1\r\n",
        ],
        ["DELETE /devstoreaccount1/things/a HTTP/1.1\r\n"] * 257,
    ],
)
def test_what_is_no_batch(raw: RawClient, container: str, requests: list[str]) -> None:
    reply = batch(raw, *requests)
    assert (reply.status, reply.code) == (400, "InvalidInput"), reply.text
    assert raw("POST", "/", b"x", {"Content-Type": "text/plain"}, comp="batch").status == 400


def test_the_sdk_deletes_in_batches(server: Server, container: str) -> None:
    with server.sdk() as client:
        things = client.get_container_client(container[1:])
        names = [f"blob {number}/é" for number in range(20)]
        for name in names:
            things.upload_blob(name, b"x")
        replies = list(things.delete_blobs(*names))
        assert [reply.status_code for reply in replies] == [202] * 20
        assert list(things.list_blobs()) == []
        with pytest.raises(PartialBatchErrorException):
            things.delete_blobs("gone")


def tier(raw: RawClient, path: str, name: str) -> str:
    return (
        f"PUT /devstoreaccount1{path}?comp=tier&{raw.sas} HTTP/1.1\r\n"
        f"x-ms-access-tier: {name}\r\nContent-Length: 0\r\n"
    )


def test_tiers_in_a_batch(raw: RawClient, container: str) -> None:
    for name in "abc":
        raw.put_blob(f"{container}/{name}")
    raw("PUT", f"{container}/c", headers={"x-ms-access-tier": "Archive"}, comp="tier")
    reply = batch(
        raw,
        tier(raw, f"{container}/a", "Cool"),
        tier(raw, f"{container}/b", "Lukewarm"),
        tier(raw, f"{container}/c", "Hot"),
        tier(raw, f"{container}/none", "Hot"),
    )
    assert reply.status == 202
    assert re.findall(r"HTTP/1.1 (\d+)", reply.text) == ["200", "400", "202", "404"]
    assert re.findall("<Code>(.*?)</Code>", reply.text) == ["InvalidHeaderValue", "BlobNotFound"]
    assert raw("HEAD", f"{container}/a").headers["x-ms-access-tier"] == "Cool"
    status = raw("HEAD", f"{container}/c").headers["x-ms-archive-status"]
    assert status == "rehydrate-pending-to-hot"


def test_who_is_not_let_in_changes_nothing(raw: RawClient, container: str) -> None:
    raw.put_blob(f"{container}/a")
    body = (
        "--b\r\nContent-Type: application/http\r\nContent-ID: 0\r\n\r\n"
        f"{delete(raw, f'{container}/a')}\r\n--b--\r\n"
    )
    headers = {"Content-Type": "multipart/mixed; boundary=b"}
    unsigned = raw("POST", "/", body, headers, signed=False, comp="batch")
    assert (unsigned.status, unsigned.code) == (401, "NoAuthenticationInformation")
    forged = raw("POST", "/", body, {**headers, "Authorization": "SharedKey devstoreaccount1:AAAA"},
                 signed=False, comp="batch")  # fmt: skip
    assert (forged.status, forged.code) == (403, "AuthenticationFailed")
    assert raw("HEAD", f"{container}/a").status == 200


def test_parts_keep_their_conditions_and_leases(raw: RawClient, container: str) -> None:
    for name in "ab":
        raw.put_blob(f"{container}/{name}")
    acquire = {"x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1"}
    raw("PUT", f"{container}/a", headers=acquire, comp="lease")
    reply = batch(
        raw,
        delete(raw, f"{container}/a"),
        delete(raw, f"{container}/b") + 'If-Match: "0x1"\r\n',
    )
    assert re.findall("<Code>(.*?)</Code>", reply.text) == ["LeaseIdMissing", "ConditionNotMet"]
    assert re.findall(r"x-ms-error-code: (\w+)", reply.text) == [
        "LeaseIdMissing",
        "ConditionNotMet",
    ]
    for name in "ab":
        assert raw("HEAD", f"{container}/{name}").status == 200
