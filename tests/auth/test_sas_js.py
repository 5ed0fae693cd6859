"""Tokens and requests that the JavaScript SDKs sign, of every version that they can make.

Where the packages come from, `node_modules` in tests/conftest.py says.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from auth_samples import account, key, keys, now, other_key, request_for, secret
from sas_samples import verified

from etagere.auth.authorization import KeyCredential, parse_authorization
from etagere.auth.delegation import issue
from etagere.auth.identity import SasIdentity
from etagere.auth.key_range import KeyRange
from etagere.auth.request import ResourceName
from etagere.auth.sas_token import ResponseOverrides
from etagere.auth.shared_key import verify as verify_shared_key
from etagere.base.clock import Timestamp, seconds
from etagere.base.errors import Refused
from etagere.kernel.dates import parse_http_date

script = Path(__file__).parent / "javascript" / "tokens.cjs"

key_versions = [
    "2015-04-05",
    "2016-05-31",
    "2018-03-28",
    "2018-11-09",
    "2020-10-02",
    "2020-12-06",
    "2021-12-02",
    "2025-07-05",
    "2026-04-06",
    "",
]
delegation_versions = [
    "2018-11-09",
    "2019-12-12",
    "2020-02-10",
    "2020-10-02",
    "2020-12-06",
    "2021-12-02",
    "2025-05-05",
    "2025-07-05",
    "2026-04-06",
    "",
]
window = {"startsOn": "2026-03-01T11:00:00Z", "expiresOn": "2026-03-01T13:00:00Z"}
rich = {
    "ipRange": {"start": "127.0.0.1", "end": "127.0.0.9"},
    "protocol": "https,http",
    "cacheControl": "no-store",
    "contentDisposition": 'attachment; filename="a b+c.txt"',
    "contentEncoding": "gzip",
    "contentLanguage": "fr",
    "contentType": "text/plain; charset=utf-8",
}
overrides = ResponseOverrides(
    "no-store",
    'attachment; filename="a b+c.txt"',
    "gzip",
    "fr",
    "text/plain; charset=utf-8",
)
snapshot = "2026-03-01T10:00:00.1234567Z"


def delegation(service: str) -> dict[str, str]:
    issued = issue(
        key,
        oid="oid",
        tid="tid",
        start=Timestamp(now - seconds(7200)),
        expiry=Timestamp(now + seconds(7200)),
        service=service,
        version="2021-12-02",
        now=now,
    )
    return {
        "signedObjectId": issued.signed_oid,
        "signedTenantId": issued.signed_tid,
        "signedStartsOn": issued.signed_start,
        "signedExpiresOn": issued.signed_expiry,
        "signedService": issued.signed_service,
        "signedVersion": issued.signed_version,
        "value": issued.value,
    }


def versioned(version: str, values: dict[str, Any]) -> dict[str, Any]:
    return {**values, "version": version} if version else values


def asked() -> dict[str, Any]:
    """What the script is to make: a name for each token, and the SDK's own arguments."""
    tokens: dict[str, Any] = {}

    def ask(name: str, make: str, values: dict[str, Any], **more: Any) -> None:
        tokens[name] = {"make": make, "values": {**window, **values}, **more}

    for version in key_versions:
        here = {"containerName": "c", "blobName": "dir/é ü+%25", **rich}
        ask(f"blob {version}", "blob", versioned(version, {**here, "permissions": "rcw"}))
        there = {"containerName": "c", "permissions": "rl"}
        ask(f"container {version}", "blob", versioned(version, there))
        policy = {"containerName": "c", "identifier": "p"}
        ask(f"policy {version}", "blob", versioned(version, policy))
        tokens[f"policy {version}"]["values"].pop("startsOn")
        tokens[f"policy {version}"]["values"].pop("expiresOn")
        ask(
            f"account {version}",
            "account",
            versioned(
                version,
                {
                    "services": "bqf",
                    "resourceTypes": "sco",
                    "permissions": "rwl",
                    "protocol": "https",
                },
            ),
        )
        if not version or version >= "2018-11-09":
            moment = {"containerName": "c", "blobName": "b", "permissions": "r"}
            ask(
                f"snapshot {version}",
                "blob",
                versioned(version, {**moment, "snapshotTime": snapshot}),
            )
        if not version or version >= "2020-12-06":
            scoped = {"containerName": "c", "permissions": "r", "encryptionScope": "scope"}
            ask(f"scope {version}", "blob", versioned(version, scoped))
    for version in delegation_versions:
        here = {"containerName": "c", "blobName": "b", "permissions": "r", **rich}
        ask(
            f"delegated blob {version}",
            "blob",
            versioned(version, here),
            delegation=delegation("b"),
        )
        there = {"containerName": "c", "permissions": "rl"}
        ask(
            f"delegated container {version}",
            "blob",
            versioned(version, there),
            delegation=delegation("b"),
        )
    ask("queue", "queue", {"queueName": "q1", "permissions": "raup"})
    ask("share", "file", {"shareName": "s", "permissions": "rl"})
    ask("file", "file", {"shareName": "s", "filePath": "dir/é f", "permissions": "rw", **rich})
    ask(
        "directory",
        "lake",
        {
            "fileSystemName": "fs",
            "pathName": "a/b",
            "isDirectory": True,
            "directoryDepth": 2,
            "permissions": "rl",
        },
    )
    ask(
        "table",
        "table",
        {
            "tableName": "People",
            "startPartitionKey": "a é",
            "startRowKey": "1",
            "endPartitionKey": "b+c",
            "endRowKey": "2",
        },
    )
    return tokens


@pytest.fixture(scope="module")
def made(node_modules: Path) -> Any:
    ran = subprocess.run(
        ["node", str(script)],
        input=json.dumps({"account": account, "secret": secret, "tokens": asked()}),
        env={**os.environ, "NODE_PATH": str(node_modules)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def accepted(token: str, name: ResourceName, *others: ResourceName) -> SasIdentity:
    for other in others:
        with pytest.raises(Refused, match="AuthenticationFailed"):
            verified(token, other)
    with pytest.raises(Refused, match="AuthenticationFailed"):
        verified(token, name, keys=(other_key,))
    return verified(token, name)


blob = ResourceName("b", "c", "dir/é ü+%25")
small = ResourceName("b", "c", "b")
container = ResourceName("b", "c")


@pytest.mark.parametrize("version", key_versions)
def test_blob_tokens(made: Any, version: str) -> None:
    identity = accepted(made["tokens"][f"blob {version}"], blob, small, container)
    assert set(identity.permissions) == set("rcw")
    assert identity.overrides == overrides
    assert identity.sas.fields["sip"] == "127.0.0.1-127.0.0.9"
    if version:
        assert identity.sas.version == version


@pytest.mark.parametrize("version", key_versions)
def test_container_tokens(made: Any, version: str) -> None:
    token = made["tokens"][f"container {version}"]
    assert accepted(token, blob, ResourceName("b", "d")).permissions == "rl"


@pytest.mark.parametrize("version", key_versions)
def test_tokens_of_a_policy(made: Any, version: str) -> None:
    class Policy:
        id = "p"
        start = None
        expiry = Timestamp(now + seconds(60))
        permission = "r"

    token = made["tokens"][f"policy {version}"]
    assert verified(token, blob, policy=Policy()).permissions == "r"


@pytest.mark.parametrize("version", key_versions)
@pytest.mark.parametrize("service", ["b", "q", "f"])
def test_account_tokens(made: Any, version: str, service: str) -> None:
    identity = accepted(made["tokens"][f"account {version}"], ResourceName(service, "x", "y"))
    assert set(identity.permissions) == set("rwl")
    assert set(identity.services) == set("bqf")


@pytest.mark.parametrize("version", [v for v in key_versions if not v or v >= "2018-11-09"])
def test_snapshot_tokens(made: Any, version: str) -> None:
    name = ResourceName("b", "c", "b", snapshot=snapshot)
    assert accepted(made["tokens"][f"snapshot {version}"], name, small).scope == "bs"


@pytest.mark.parametrize("version", [v for v in key_versions if not v or v >= "2020-12-06"])
def test_tokens_with_an_encryption_scope(made: Any, version: str) -> None:
    assert accepted(made["tokens"][f"scope {version}"], blob).encryption_scope == "scope"


@pytest.mark.parametrize("version", delegation_versions)
def test_delegated_tokens(made: Any, version: str) -> None:
    identity = accepted(made["tokens"][f"delegated blob {version}"], small, blob, container)
    assert identity.overrides == overrides
    token = made["tokens"][f"delegated container {version}"]
    assert accepted(token, blob, ResourceName("b", "d", "b")).permissions == "rl"


def test_tokens_of_other_services(made: Any) -> None:
    tokens = made["tokens"]
    queue = ResourceName("q", "q1")
    assert accepted(tokens["queue"], queue, ResourceName("q", "q2")).permissions == "raup"
    file = ResourceName("f", "s", "dir/é f")
    assert accepted(tokens["file"], file, ResourceName("f", "s")).overrides == overrides
    assert accepted(tokens["share"], file, ResourceName("f", "t", "x")).scope == "s"
    inside, outside = ResourceName("b", "fs", "a/b/c"), ResourceName("b", "fs", "a/c")
    assert accepted(tokens["directory"], inside, outside).scope == "d"
    identity = accepted(tokens["table"], ResourceName("t", "people"), ResourceName("t", "peopl"))
    assert identity.key_range == KeyRange("a é", "1", "b+c", "2")


@pytest.mark.parametrize(
    "call",
    [
        "b list containers",
        "b put blob",
        "b get if changed",
        "q put message",
        "q delete message",
        "f create directory",
        "t insert",
        "t read",
        "t query",
    ],
)
def test_requests_signed_with_the_key(made: Any, call: str) -> None:
    sent = made["requests"][call]
    request = request_for(
        sent["url"], method=sent["method"], headers=sent["headers"], service=call[0]
    )
    credential = parse_authorization(request.headers["authorization"])
    assert isinstance(credential, KeyCredential)
    moment = parse_http_date(request.headers["x-ms-date"])
    assert moment is not None
    identity = verify_shared_key(
        request, credential.scheme, credential.account, credential.signature, keys, moment
    )
    assert identity.key_index == 0
