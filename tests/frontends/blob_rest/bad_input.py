"""Requests that are right, and the ways to spoil them: what `test_bad_input` is driven by.

`operations` has one request for each operation that works as it stands.  `spoiled` has a row for
each thing that can be wrong with one: what is changed, and what the documentation says of it.
"""

import base64
import dataclasses
from dataclasses import dataclass, field

lease_id = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
past = "Mon, 01 Jan 2001 00:00:00 GMT"
future = "Thu, 31 Dec 2099 00:00:00 GMT"
key = base64.b64encode(b"k" * 32).decode()
"""A customer's key."""


@dataclass(frozen=True)
class Ask:
    """A request.  `{...}` in headers and query is filled in with what the set-up has made."""

    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: str | bytes = b""
    kind: str = ""
    """Of the blob that it is about: block, append, page; "" for containers and the account."""
    reads: bool = False
    conditions: bool = False
    lease: bool = False
    base_only: bool = False
    """Whether a snapshot cannot be its subject."""
    of_any_kind: bool = False
    """Whether it works on every type of blob, or on none yet."""
    creates: bool = False


_c = {"restype": "container"}
_source = {"x-ms-copy-source": "{url}/con/source?{sas}"}
_query_body = (
    "<QueryRequest><QueryType>SQL</QueryType><Expression>SELECT * from BlobStorage</Expression>"
    "</QueryRequest>"
)
_tags = "<Tags><TagSet><Tag><Key>k</Key><Value>w</Value></Tag></TagSet></Tags>"
_block_list = "<BlockList><Latest>QUFB</Latest></BlockList>"
_acl = (
    "<SignedIdentifiers><SignedIdentifier><Id>a</Id><AccessPolicy><Expiry>2099-01-01</Expiry>"
    "<Permission>r</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>"
)
_retention = "<RetentionPolicy><Enabled>false</Enabled></RetentionPolicy>"
_logging = (
    "<Logging><Version>1.0</Version><Delete>false</Delete><Read>false</Read><Write>false</Write>"
    f"{_retention}</Logging>"
)


def _properties(inner: str) -> str:
    return f"<StorageServiceProperties>{inner}</StorageServiceProperties>"


def _write(kind: str, **more: object) -> dict[str, object]:
    return {"kind": kind, "conditions": True, "lease": True, "base_only": True, **more}


def _lease(action: str, **headers: str) -> dict[str, str]:
    sent = {f"x-ms-{name.replace('_', '-')}": value for name, value in headers.items()}
    return {"x-ms-lease-action": action, **sent}


operations: dict[str, Ask] = {
    # ---- the account
    "ListContainers": Ask("GET", "/", {"comp": "list"}, reads=True),
    "GetServiceProperties": Ask(
        "GET", "/", {"restype": "service", "comp": "properties"}, reads=True
    ),
    "SetServiceProperties": Ask(
        "PUT",
        "/",
        {"restype": "service", "comp": "properties"},
        {},
        _properties("<DefaultServiceVersion>2020-10-02</DefaultServiceVersion>"),
    ),
    "FindBlobs": Ask("GET", "/", {"comp": "blobs", "where": "k='v'"}, reads=True),
    "FindBlobsInContainer": Ask(
        "GET", "/con", {**_c, "comp": "blobs", "where": "k='v'"}, reads=True
    ),
    "Batch": Ask(
        "POST",
        "/",
        {"comp": "batch"},
        {"Content-Type": "multipart/mixed; boundary=b"},
        "--b\r\nContent-Type: application/http\r\nContent-ID: 0\r\n\r\n"
        "DELETE /devstoreaccount1/con/none?{sas} HTTP/1.1\r\n\r\n\r\n--b--\r\n",
    ),
    # ---- containers
    "CreateContainer": Ask("PUT", "/new", _c),
    "GetContainerProperties": Ask("GET", "/con", _c, reads=True, lease=True),
    "GetContainerMetadata": Ask("GET", "/con", {**_c, "comp": "metadata"}, reads=True, lease=True),
    "SetContainerMetadata": Ask(
        "PUT", "/con", {**_c, "comp": "metadata"}, {"x-ms-meta-a": "b"}, conditions=True, lease=True
    ),
    "GetContainerAcl": Ask("GET", "/con", {**_c, "comp": "acl"}, reads=True, lease=True),
    "SetContainerAcl": Ask(
        "PUT", "/con", {**_c, "comp": "acl"}, {}, _acl, conditions=True, lease=True
    ),
    "DeleteContainer": Ask("DELETE", "/con", _c, conditions=True, lease=True),
    "AcquireContainerLease": Ask(
        "PUT",
        "/con",
        {**_c, "comp": "lease"},
        _lease("acquire", lease_duration="15", proposed_lease_id=lease_id),
        conditions=True,
    ),
    "BreakContainerLease": Ask(
        "PUT", "/leased", {**_c, "comp": "lease"}, _lease("break"), conditions=True
    ),
    "RestoreContainer": Ask(
        "PUT",
        "/gone",
        {**_c, "comp": "undelete"},
        {
            "x-ms-deleted-container-name": "gone",
            "x-ms-deleted-container-version": "{gone}",
        },
    ),
    "RenameContainer": Ask(
        "PUT", "/new", {**_c, "comp": "rename"}, {"x-ms-source-container-name": "con"}
    ),
    "ListBlobs": Ask("GET", "/con", {**_c, "comp": "list"}, reads=True),
    # ---- all types of blob
    "GetBlob": Ask(
        "GET", "/con/block", kind="block", reads=True, conditions=True, lease=True, of_any_kind=True
    ),
    "GetBlobProperties": Ask(
        "HEAD",
        "/con/block",
        kind="block",
        reads=True,
        conditions=True,
        lease=True,
        of_any_kind=True,
    ),
    "GetBlobMetadata": Ask(
        "GET",
        "/con/block",
        {"comp": "metadata"},
        kind="block",
        reads=True,
        conditions=True,
        lease=True,
        of_any_kind=True,
    ),
    "SetBlobProperties": Ask(
        "PUT",
        "/con/block",
        {"comp": "properties"},
        {"x-ms-blob-content-type": "a/b"},
        **_write("block", of_any_kind=True),
    ),
    "SetBlobMetadata": Ask(
        "PUT",
        "/con/block",
        {"comp": "metadata"},
        {"x-ms-meta-a": "b"},
        **_write("block", of_any_kind=True),
    ),
    "AcquireBlobLease": Ask(
        "PUT",
        "/con/block",
        {"comp": "lease"},
        _lease("acquire", lease_duration="-1"),
        kind="block",
        conditions=True,
        base_only=True,
        of_any_kind=True,
    ),
    "RenewBlobLease": Ask(
        "PUT",
        "/con/leased",
        {"comp": "lease"},
        _lease("renew", lease_id=lease_id),
        kind="block",
        conditions=True,
        base_only=True,
        of_any_kind=True,
    ),
    "ChangeBlobLease": Ask(
        "PUT",
        "/con/leased",
        {"comp": "lease"},
        _lease("change", lease_id=lease_id, proposed_lease_id=lease_id.replace("a", "b")),
        kind="block",
        conditions=True,
        base_only=True,
        of_any_kind=True,
    ),
    "ReleaseBlobLease": Ask(
        "PUT",
        "/con/leased",
        {"comp": "lease"},
        _lease("release", lease_id=lease_id),
        kind="block",
        conditions=True,
        base_only=True,
        of_any_kind=True,
    ),
    "BreakBlobLease": Ask(
        "PUT",
        "/con/leased",
        {"comp": "lease"},
        _lease("break", lease_break_period="5"),
        kind="block",
        conditions=True,
        base_only=True,
        of_any_kind=True,
    ),
    "SnapshotBlob": Ask(
        "PUT", "/con/block", {"comp": "snapshot"}, **_write("block", of_any_kind=True)
    ),
    "DeleteBlob": Ask(
        "DELETE", "/con/block", kind="block", conditions=True, lease=True, of_any_kind=True
    ),
    "UndeleteBlob": Ask(
        "PUT", "/con/block", {"comp": "undelete"}, kind="block", base_only=True, of_any_kind=True
    ),
    "SetBlobTier": Ask(
        "PUT",
        "/con/block",
        {"comp": "tier"},
        {"x-ms-access-tier": "Cool"},
        kind="block",
        lease=True,
        of_any_kind=True,
    ),
    "GetBlobTags": Ask(
        "GET",
        "/con/block",
        {"comp": "tags"},
        kind="block",
        reads=True,
        lease=True,
        of_any_kind=True,
    ),
    "SetBlobTags": Ask(
        "PUT", "/con/block", {"comp": "tags"}, {}, _tags, kind="block", lease=True, of_any_kind=True
    ),
    "SetImmutabilityPolicy": Ask(
        "PUT",
        "/worm/block",
        {"comp": "immutabilityPolicies"},
        {"x-ms-immutability-policy-until-date": future},
        kind="block",
        of_any_kind=True,
    ),
    "SetLegalHold": Ask(
        "PUT",
        "/worm/block",
        {"comp": "legalhold"},
        {"x-ms-legal-hold": "true"},
        kind="block",
        of_any_kind=True,
    ),
    # ---- block blobs
    "PutBlob": Ask(
        "PUT",
        "/con/block",
        {},
        {"x-ms-blob-type": "BlockBlob"},
        "data",
        **_write("block", creates=True),
    ),
    "PutBlock": Ask(
        "PUT",
        "/con/block",
        {"comp": "block", "blockid": "QUFB"},
        {},
        "data",
        kind="block",
        lease=True,
        base_only=True,
        creates=True,
    ),
    "PutBlockFromUrl": Ask(
        "PUT",
        "/con/block",
        {"comp": "block", "blockid": "QUFB"},
        _source,
        kind="block",
        lease=True,
        base_only=True,
        creates=True,
    ),
    "PutBlockList": Ask(
        "PUT",
        "/con/block",
        {"comp": "blocklist"},
        {},
        _block_list,
        **_write("block", creates=True),
    ),
    "GetBlockList": Ask(
        "GET", "/con/block", {"comp": "blocklist"}, kind="block", reads=True, lease=True
    ),
    "PutBlobFromUrl": Ask(
        "PUT",
        "/con/block",
        {},
        {"x-ms-blob-type": "BlockBlob", **_source},
        **_write("block", creates=True),
    ),
    "CopyBlob": Ask("PUT", "/con/block", {}, _source, **_write("block", creates=True)),
    "CopyBlobFromUrl": Ask(
        "PUT",
        "/con/block",
        {},
        {"x-ms-requires-sync": "true", **_source},
        **_write("block", creates=True),
    ),
    "QueryBlob": Ask(
        "POST",
        "/con/block",
        {"comp": "query"},
        {},
        _query_body,
        kind="block",
        reads=True,
        conditions=True,
        lease=True,
        of_any_kind=True,
    ),
    # ---- append blobs
    "PutAppendBlob": Ask(
        "PUT",
        "/con/append",
        {},
        {"x-ms-blob-type": "AppendBlob"},
        **_write("append", creates=True),
    ),
    "AppendBlock": Ask(
        "PUT", "/con/append", {"comp": "appendblock"}, {}, "data", **_write("append")
    ),
    "AppendBlockFromUrl": Ask(
        "PUT", "/con/append", {"comp": "appendblock"}, _source, **_write("append")
    ),
    "SealAppendBlob": Ask("PUT", "/con/append", {"comp": "seal"}, **_write("append")),
    # ---- page blobs
    "PutPageBlob": Ask(
        "PUT",
        "/con/page",
        {},
        {"x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": "1024"},
        **_write("page", creates=True),
    ),
    "PutPage": Ask(
        "PUT",
        "/con/page",
        {"comp": "page"},
        {"x-ms-page-write": "update", "x-ms-range": "bytes=0-511"},
        "x" * 512,
        **_write("page"),
    ),
    "ClearPage": Ask(
        "PUT",
        "/con/page",
        {"comp": "page"},
        {"x-ms-page-write": "clear", "x-ms-range": "bytes=0-511"},
        **_write("page"),
    ),
    "PutPageFromUrl": Ask(
        "PUT",
        "/con/page",
        {"comp": "page"},
        {
            "x-ms-page-write": "update",
            "x-ms-range": "bytes=0-511",
            "x-ms-source-range": "bytes=0-511",
            **_source,
        },
        **_write("page"),
    ),
    "SetPageBlobProperties": Ask(
        "PUT",
        "/con/page",
        {"comp": "properties"},
        {"x-ms-blob-content-length": "512"},
        **_write("page"),
    ),
    "GetPageRanges": Ask(
        "GET",
        "/con/page",
        {"comp": "pagelist"},
        kind="page",
        reads=True,
        conditions=True,
        lease=True,
    ),
    "IncrementalCopy": Ask(
        "PUT",
        "/con/followed",
        {"comp": "incrementalcopy"},
        {"x-ms-copy-source": "{url}/con/page?snapshot={page}&{sas}"},
        kind="page",
        conditions=True,
        creates=True,
    ),
}


@dataclass(frozen=True)
class Spoiled:
    """What is changed in an operation's request (None: left out), and what comes of it.

    `expected` is the status, the code and elements of the error, as `400 Code Element=text`; an
    element without text only has to be there.
    """

    operation: str
    expected: str
    query: dict[str, str | None] = field(default_factory=dict)
    headers: dict[str, str | None] = field(default_factory=dict)
    body: str | bytes | None = None
    path: str | None = None
    version: str | None = None
    closes: bool = False
    """Whether the body is not read, so that the connection ends with the answer."""

    def ask(self) -> Ask:
        right = operations[self.operation]
        return dataclasses.replace(
            right,
            query=_changed(right.query, self.query),
            headers=_changed(right.headers, self.headers),
            body=right.body if self.body is None else self.body,
            path=right.path if self.path is None else self.path,
        )

    @property
    def name(self) -> str:
        changes = {**self.query, **self.headers}
        if self.body is not None:
            text = self.body if isinstance(self.body, str) else repr(self.body[:30])
            changes["body"] = text if len(text) < 50 else f"{text[:50]}.."
        if self.path is not None:
            changes["path"] = self.path if len(self.path) < 50 else f"{self.path[:50]}.."
        if self.version is not None:
            changes["version"] = self.version
        what = ",".join(f"{name}={str(value)[:40]}" for name, value in changes.items())
        return f"{self.operation}-{what}"


def _changed(right: dict[str, str], changes: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in {**right, **changes}.items() if value is not None}


def header(name: str, value: str, operation: str, **more: object) -> Spoiled:
    """A header with a value that is refused as InvalidHeaderValue, naming it."""
    named = f"400 InvalidHeaderValue HeaderName={name}"
    return Spoiled(operation, named, headers={name: value}, **more)


def without(name: str, operation: str, **more: object) -> Spoiled:
    named = f"400 MissingRequiredHeader HeaderName={name}"
    return Spoiled(operation, named, headers={name: None}, **more)


def parameter(name: str, value: str, operation: str, **more: object) -> Spoiled:
    named = f"400 InvalidQueryParameterValue QueryParameterName={name}"
    return Spoiled(operation, named, query={name: value}, **more)


# ---- what can be wrong with every operation of a kind


def _general() -> list[Spoiled]:
    rows: list[Spoiled] = []
    for name, ask in operations.items():
        rows += [
            parameter("timeout", "soon", name),
            header("x-ms-version", "2019-01-01", name, version=""),
            header("x-ms-version", "yesterday", name, version=""),
        ]
        if ask.query.get("comp") and name != "Batch":
            rows.append(parameter("comp", "nonsense", name))
        if ask.kind or ask.path in ("/con", "/leased"):
            target = "/none" + ask.path[ask.path.rindex("/") :] if ask.kind else "/none"
            if name not in ("Batch", "FindBlobsInContainer"):
                rows.append(Spoiled(name, "404 ContainerNotFound", path=target))
        if ask.kind and not ask.creates:
            rows.append(Spoiled(name, "404 BlobNotFound", path=_missing(ask.path)))
        if ask.kind and not ask.of_any_kind:
            for kind in {"block", "append", "page"} - {ask.kind}:
                rows.append(Spoiled(name, "409 InvalidBlobType", path=f"/con/{kind}"))
        rows += _of_conditions(name, ask)
        if ask.lease:
            rows += [
                header("x-ms-lease-id", "nonsense", name),
                header("x-ms-lease-id", lease_id[:-1], name),
            ]
        if ask.kind and ask.base_only:
            rows.append(parameter("snapshot", "{snapshot}", name))
            rows.append(parameter("versionid", "{snapshot}", name))
        elif ask.kind and not ask.creates:
            rows.append(parameter("snapshot", "yesterday", name))
            rows.append(parameter("versionid", "yesterday", name))
            both = {"snapshot": "{snapshot}", "versionid": "{snapshot}"}
            rows.append(Spoiled(name, "400 InvalidQueryParameterValue", query=both))
        if "x-ms-copy-source" in ask.headers:
            rows += _of_sources(name)
    return rows


def _missing(path: str) -> str:
    return path[: path.rindex("/")] + "/none"


def _of_conditions(name: str, ask: Ask) -> list[Spoiled]:
    if not ask.conditions:
        return []
    wrong = '"0x8D0000000000000"'
    rows = [
        header("If-Modified-Since", f"{past}, {past}", name),
        header("If-Unmodified-Since", f"{past}, {past}", name),
        Spoiled(name, "412 ConditionNotMet", headers={"If-Match": wrong}),
        Spoiled(name, "412 ConditionNotMet", headers={"If-Unmodified-Since": past}),
    ]
    if ask.kind:
        rows += [
            header("x-ms-if-tags", "k = ", name),
            header("x-ms-if-tags", "k LIKE 'v'", name),
            Spoiled(name, "412 ConditionNotMet", headers={"x-ms-if-tags": "k = 'other'"}),
        ]
    if ask.reads:
        unmet = "304 ConditionNotMet"
        rows.append(Spoiled(name, "400 UnsatisfiableCondition", headers={"If-None-Match": "*"}))
    else:
        unmet = "412 ConditionNotMet"
        several = '"0x1", "0x2"'
        rows += [
            header("If-Match", several, name),
            header("If-None-Match", several, name),
        ]
        rows += [
            Spoiled(name, "400 MultipleConditionHeadersNotSupported", headers=pair)
            for pair in (
                {"If-Match": "*", "If-None-Match": wrong},
                {"If-Match": "*", "If-Modified-Since": past},
                {"If-None-Match": wrong, "If-Unmodified-Since": future},
                {"If-Modified-Since": past, "If-Unmodified-Since": future},
            )
        ]
    rows.append(Spoiled(name, unmet, headers={"If-Modified-Since": future}))
    return rows


def _of_sources(name: str) -> list[Spoiled]:
    rows = [
        header("x-ms-copy-source", value, name)
        for value in (
            "nonsense",
            "ftp://a/b/c",
            "http://[",
            "http:///con/source",
            "{url}/con?restype=container&{sas}",
        )
    ]
    missing = {"x-ms-copy-source": "{url}/con/none?{sas}"}
    if name == "CopyBlob":
        rows.append(Spoiled(name, "404 BlobNotFound", headers=missing))
    elif name != "IncrementalCopy":
        rows += [
            Spoiled(name, "404 CannotVerifyCopySource", headers=missing),
            Spoiled(
                name,
                "404 CannotVerifyCopySource",
                headers={"x-ms-copy-source": "{url}/none/source?{sas}"},
            ),
            Spoiled(
                name,
                "401 CannotVerifyCopySource",
                headers={"x-ms-copy-source": "{url}/con/source"},
            ),
        ]
    if name == "IncrementalCopy":
        return rows
    unmet = "SourceConditionNotMet" if name == "CopyBlob" else "CannotVerifyCopySource"
    other = "412" if name == "CopyBlob" else "304"
    rows += [
        Spoiled(name, f"{status} {unmet}", headers={f"x-ms-source-{condition}": value})
        for condition, value, status in (
            ("if-match", '"0x1"', "412"),
            ("if-unmodified-since", past, "412"),
            ("if-none-match", "*", other),
            ("if-modified-since", future, other),
        )
    ]
    tags = {"x-ms-source-if-tags": "k = 'v'"}
    rows += [
        header("x-ms-source-if-tags", "k = ", name),
        Spoiled(
            name,
            "412 ConditionNotMet" if name == "CopyBlob" else "412 CannotVerifyCopySource",
            headers=tags,
        ),
    ]
    return rows


# ---- what can be wrong with one operation


def _document(operation: str, *bodies: tuple[str, str], empty: bool = True) -> list[Spoiled]:
    """Bodies that are no XML, or not the XML that is wanted; `empty` says whether nothing is."""
    not_xml = ["<", "nonsense", '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "<a></b>", "\0"]
    if empty:
        not_xml.append("")
    rows = [
        Spoiled(operation, "400 InvalidXmlDocument LineNumber LinePosition Reason", body=body)
        for body in (*not_xml, "<Other/>")
    ]
    return rows + [Spoiled(operation, expected, body=body) for body, expected in bodies]


def _digests(operation: str) -> list[Spoiled]:
    """Of an operation whose body is data or a document."""
    md5, crc64 = base64.b64encode(b"m" * 16).decode(), base64.b64encode(b"c" * 8).decode()
    rows = [
        Spoiled(
            operation,
            f"400 Md5Mismatch UserSpecifiedMd5={md5} ServerCalculatedMd5",
            headers={"Content-MD5": md5},
        ),
        Spoiled(
            operation,
            f"400 Crc64Mismatch UserSpecifiedCrc64={crc64} ServerCalculatedCrc64",
            headers={"x-ms-content-crc64": crc64},
        ),
        Spoiled(
            operation,
            "400 BothCrc64AndMd5HeaderPresent",
            headers={"Content-MD5": md5, "x-ms-content-crc64": crc64},
        ),
        header("x-ms-content-crc64", "nonsense", operation),
        header("x-ms-content-crc64", md5, operation),
    ]
    rows += [
        Spoiled(operation, "400 InvalidMd5", headers={"Content-MD5": value})
        for value in ("nonsense", crc64, md5[:-4])
    ]
    return rows


def _metadata(operation: str) -> list[Spoiled]:
    return [
        Spoiled(operation, "400 EmptyMetadataKey", headers={"x-ms-meta-": "x"}),
        Spoiled(operation, "400 InvalidMetadata", headers={"x-ms-meta-1a": "x"}),
        Spoiled(operation, "400 InvalidMetadata", headers={"x-ms-meta-a-b": "x"}),
        Spoiled(operation, "400 MetadataTooLarge", headers={"x-ms-meta-a": "x" * 8192}),
    ]


def _tags_header(operation: str) -> list[Spoiled]:
    many = "&".join(f"k{number}=v" for number in range(11))
    return [
        Spoiled(operation, expected, headers={"x-ms-tags": value})
        for value, expected in (
            ("nonsense", "400 InvalidHeaderValue HeaderName=x-ms-tags HeaderValue=nonsense"),
            ("=v", "400 EmptyTagName"),
            ("k=v&k=w", "400 DuplicateTagNames"),
            ("k=%21", "400 InvalidTag"),
            ("k%3F=v", "400 InvalidTag"),
            (many, "400 TagsTooLarge"),
            (f"{'k' * 129}=v", "400 TagsTooLarge"),
            (f"k={'v' * 257}", "400 TagsTooLarge"),
        )
    ]


def _keys(operation: str) -> list[Spoiled]:
    digest = {"x-ms-encryption-key-sha256": key, "x-ms-encryption-algorithm": "AES256"}
    name = "HeaderName=x-ms-encryption-key"
    return [
        Spoiled(
            operation,
            f"400 InvalidHeaderValue {name}-sha256",
            headers={"x-ms-encryption-key": key, **digest},
        ),
        Spoiled(
            operation,
            f"400 InvalidHeaderValue {name}",
            headers={"x-ms-encryption-key": "c2hvcnQ=", **digest},
        ),
        Spoiled(operation, f"400 MissingRequiredHeader {name}", headers=digest),
        header("x-ms-encryption-scope", "no such name", operation),
    ]


def _creating(operation: str) -> list[Spoiled]:
    """What can be wrong with what a blob is created with."""
    return [
        *_metadata(operation),
        *_tags_header(operation),
        *_keys(operation),
        header("x-ms-access-tier", "Lukewarm", operation),
        header("x-ms-immutability-policy-until-date", "tomorrow", operation),
        header("x-ms-immutability-policy-until-date", past, operation),
        header("x-ms-legal-hold", "perhaps", operation),
        Spoiled(
            operation,
            "400 MissingRequiredHeader HeaderName=x-ms-immutability-policy-until-date",
            headers={"x-ms-immutability-policy-mode": "locked"},
        ),
        Spoiled(
            operation,
            "400 InvalidHeaderValue HeaderName=x-ms-immutability-policy-mode",
            headers={
                "x-ms-immutability-policy-mode": "ajar",
                "x-ms-immutability-policy-until-date": future,
            },
        ),
        Spoiled(
            operation,
            "409 InvalidOperation",
            headers={"x-ms-immutability-policy-until-date": future},
        ),
        Spoiled(operation, "400 OutOfRangeInput", path="/con/" + "n" * 1025),
        Spoiled(operation, "400 OutOfRangeInput", path="/con/" + "n/" * 254 + "n"),
        Spoiled(operation, "400 InvalidResourceName", path="/con/a%00b"),
        Spoiled(operation, "409 BlobAlreadyExists", headers={"If-None-Match": "*"}),
        Spoiled(operation, "412 LeaseIdMissing", headers={}, path="/con/leased"),
        Spoiled(
            operation,
            "412 LeaseNotPresentWithBlobOperation",
            headers={"x-ms-lease-id": lease_id},
            path="/con/none",
        ),
    ]


def _empty_body(operation: str) -> list[Spoiled]:
    """The content comes from elsewhere, or there is none."""
    return [
        Spoiled(operation, "400 InvalidHeaderValue HeaderName=Content-Length", body="unwanted"),
    ]


def _ranges(operation: str) -> list[Spoiled]:
    """Of reads."""
    return [
        header("x-ms-range", value, operation)
        for value in ("nonsense", "bytes=-5", "bytes=5-1", "bytes=0-1,3-4", "bytes=a-b")
    ]


def _paging(operation: str, *, marker: bool = True) -> list[Spoiled]:
    """Listings of names take a marker that is none of theirs for a name to begin with."""
    rows = [
        Spoiled(
            operation,
            "400 OutOfRangeQueryParameterValue QueryParameterName=maxresults"
            f" QueryParameterValue={value} MinimumAllowed=1 MaximumAllowed",
            query={"maxresults": value},
        )
        for value in ("0", "-1", "-99999")
    ]
    rows += [parameter("maxresults", value, operation) for value in ("x", "1.5", "", "9" * 40)]
    if marker:
        rows.append(parameter("marker", "!nonsense!", operation))
    return rows


_containers = [
    *_paging("ListContainers", marker=False),
    parameter("include", "nonsense", "ListContainers"),
    parameter("include", "metadata,nonsense", "ListContainers"),
    *_metadata("CreateContainer"),
    *_metadata("SetContainerMetadata"),
    header("x-ms-blob-public-access", "everybody", "CreateContainer"),
    header("x-ms-default-encryption-scope", "no such name", "CreateContainer"),
    header("x-ms-deny-encryption-scope-override", "perhaps", "CreateContainer"),
    Spoiled("CreateContainer", "409 ContainerAlreadyExists", path="/con"),
    *(
        Spoiled("CreateContainer", f"400 {code}", path=f"/{name}")
        for name, code in (
            ("ab", "OutOfRangeInput"),
            ("a" * 64, "OutOfRangeInput"),
            ("Upper", "InvalidResourceName"),
            ("a--b", "InvalidResourceName"),
            ("-abc", "InvalidResourceName"),
            ("abc-", "InvalidResourceName"),
            ("a_bc", "InvalidResourceName"),
            ("a.bc", "InvalidResourceName"),
            ("caf%C3%A9", "InvalidResourceName"),
            ("$other", "InvalidResourceName"),
        )
    ),
    header("x-ms-blob-public-access", "everybody", "SetContainerAcl"),
    *_document(
        "SetContainerAcl",
        ("<SignedIdentifiers><Other/></SignedIdentifiers>", "400 InvalidXmlDocument"),
        (
            "<SignedIdentifiers><SignedIdentifier/></SignedIdentifiers>",
            "400 InvalidXmlNodeValue XmlNodeName=Id",
        ),
        (_acl.replace("<Id>a", "<Id>" + "i" * 65), "400 InvalidXmlNodeValue XmlNodeName=Id"),
        (_acl.replace("2099-01-01", "soon"), "400 InvalidXmlNodeValue XmlNodeName=Expiry"),
        (_acl.replace("<Permission>r", "<Permission>raup"), "400 InvalidXmlDocument"),
        (
            "<SignedIdentifiers>"
            + "".join(f"<SignedIdentifier><Id>{n}</Id></SignedIdentifier>" for n in range(6))
            + "</SignedIdentifiers>",
            "400 InvalidXmlDocument",
        ),
        (
            "<SignedIdentifiers>"
            + "<SignedIdentifier><Id>a</Id></SignedIdentifier>" * 2
            + "</SignedIdentifiers>",
            "400 InvalidXmlDocument",
        ),
        empty=False,
    ),
    Spoiled("DeleteContainer", "412 LeaseIdMissing", path="/leased"),
    Spoiled(
        "DeleteContainer",
        "412 LeaseNotPresentWithContainerOperation",
        headers={"x-ms-lease-id": lease_id},
    ),
    without("x-ms-lease-action", "AcquireContainerLease"),
    header("x-ms-lease-action", "borrow", "AcquireContainerLease"),
    without("x-ms-lease-duration", "AcquireContainerLease"),
    *(
        header("x-ms-lease-duration", value, "AcquireContainerLease")
        for value in ("14", "61", "0", "-2", "x", "1e3", "15.0")
    ),
    header("x-ms-proposed-lease-id", "nonsense", "AcquireContainerLease"),
    Spoiled("AcquireContainerLease", "409 LeaseAlreadyPresent", path="/leased",
            headers={"x-ms-proposed-lease-id": None}),
    *(
        header("x-ms-lease-break-period", value, "BreakContainerLease")
        for value in ("-1", "61", "x")
    ),
    Spoiled("BreakContainerLease", "409 LeaseNotPresentWithLeaseOperation", path="/con"),
    without("x-ms-deleted-container-name", "RestoreContainer"),
    without("x-ms-deleted-container-version", "RestoreContainer"),
    Spoiled("RestoreContainer", "404 ContainerNotFound",
            headers={"x-ms-deleted-container-version": "nonsense"}),
    Spoiled("RestoreContainer", "404 ContainerNotFound",
            headers={"x-ms-deleted-container-version": "01"}),
    Spoiled("RestoreContainer", "409 ContainerAlreadyExists", path="/con"),
    without("x-ms-source-container-name", "RenameContainer"),
    header("x-ms-source-lease-id", "nonsense", "RenameContainer"),
    Spoiled("RenameContainer", "404 ContainerNotFound",
            headers={"x-ms-source-container-name": "none"}),
    Spoiled("RenameContainer", "409 ContainerAlreadyExists", path="/leased"),
    Spoiled("RenameContainer", "412 LeaseIdMissing",
            headers={"x-ms-source-container-name": "leased"}),
    *_paging("ListBlobs", marker=False),
    parameter("include", "nonsense", "ListBlobs"),
    parameter("include", "metadata,,tags", "ListBlobs"),
    parameter("showonly", "everything", "ListBlobs"),
    Spoiled("ListBlobs", "400 InvalidQueryParameterValue QueryParameterName=include",
            query={"include": "snapshots", "delimiter": "/"}),
]  # fmt: skip

_account = [
    *_document(
        "SetServiceProperties",
        (_properties("<Nonsense/>"), "400 InvalidXmlDocument"),
        (_properties("<Cors/><Cors/>"), "400 InvalidXmlDocument"),
        (_properties("<Logging/>"), "400 MissingRequiredXmlNode XmlNodeName=Version"),
        (
            _properties(_logging.replace("<Read>false</Read>", "")),
            "400 MissingRequiredXmlNode XmlNodeName=Read",
        ),
        (
            _properties(_logging.replace("<Read>false</Read>", "<Read>perhaps</Read>")),
            "400 InvalidXmlNodeValue XmlNodeName=Read XmlNodeValue=perhaps Reason",
        ),
        (
            _properties("<DeleteRetentionPolicy><Enabled>true</Enabled></DeleteRetentionPolicy>"),
            "400 MissingRequiredXmlNode XmlNodeName=Days",
        ),
        *(
            (
                _properties(
                    "<DeleteRetentionPolicy><Enabled>true</Enabled>"
                    f"<Days>{days}</Days></DeleteRetentionPolicy>"
                ),
                f"400 InvalidXmlNodeValue XmlNodeName=Days XmlNodeValue={days}",
            )
            for days in ("0", "366", "-1", "x", "9" * 30)
        ),
        (
            _properties("<DefaultServiceVersion>2019-01-01</DefaultServiceVersion>"),
            "400 InvalidXmlNodeValue XmlNodeName=DefaultServiceVersion",
        ),
        (
            _properties(
                "<StaticWebsite><Enabled>true</Enabled><IndexDocument>a</IndexDocument>"
                "<DefaultIndexDocumentPath>b</DefaultIndexDocumentPath></StaticWebsite>"
            ),
            "400 InvalidXmlDocument",
        ),
        (
            _properties(
                "<Cors>" + "<CorsRule><AllowedOrigins>*</AllowedOrigins><AllowedMethods>GET"
                "</AllowedMethods><AllowedHeaders/><ExposedHeaders/><MaxAgeInSeconds>1"
                "</MaxAgeInSeconds></CorsRule>" * 6 + "</Cors>"
            ),
            "400 InvalidXmlDocument",
        ),
        (
            _properties(
                "<Cors><CorsRule><AllowedOrigins>*</AllowedOrigins><AllowedMethods>LOOK"
                "</AllowedMethods><AllowedHeaders/><ExposedHeaders/><MaxAgeInSeconds>1"
                "</MaxAgeInSeconds></CorsRule></Cors>"
            ),
            "400 InvalidXmlDocument",
        ),
    ),
    *_paging("FindBlobs"),
    *_paging("FindBlobsInContainer"),
    Spoiled(
        "FindBlobs",
        "400 MissingRequiredQueryParameter QueryParameterName=where",
        query={"where": None},
    ),
    *(
        parameter("where", value, "FindBlobs")
        for value in ("nonsense", "k='v' OR k='w'", "k<>'v'", "k=v", "k='v' AND", "=")
    ),
    parameter("where", "@container='con' AND k='v'", "FindBlobsInContainer"),
    Spoiled("Batch", "400 InvalidInput", headers={"Content-Type": None}),
    Spoiled("Batch", "400 InvalidInput", headers={"Content-Type": "text/plain"}),
    Spoiled("Batch", "400 InvalidInput", headers={"Content-Type": "multipart/mixed"}),
    *(
        Spoiled("Batch", "400 InvalidInput", body=body)
        for body in (
            "",
            "nonsense",
            "--b--\r\n",
            "--b\r\n\r\n\r\n--b--\r\n",
            "--b\r\nContent-Type: text/plain\r\n\r\nDELETE /a/b HTTP/1.1\r\n\r\n--b--\r\n",
            "--b\r\nContent-Type: application/http\r\n\r\nDELETE\r\n\r\n--b--\r\n",
            "--b\r\nContent-Type: application/http\r\n\r\nGET /a/con/b HTTP/1.1\r\n\r\n--b--\r\n",
            (
                "--b\r\nContent-Type: application/http\r\n\r\nDELETE /a/con/b HTTP/1.1\r\n\r\n"
                "--b\r\nContent-Type: application/http\r\n\r\n"
                "PUT /a/con/b?comp=tier HTTP/1.1\r\n\r\n--b--\r\n"
            ),
            "--b\r\nContent-Type: application/http\r\n\r\nDELETE /a/con/b HTTP/1.1\r\n\r\n" * 257
            + "--b--\r\n",
        )
    ),
]

_blobs = [
    *_ranges("GetBlob"),
    *(
        Spoiled("GetBlob", "416 InvalidRange", headers={"x-ms-range": value})
        for value in ("bytes=4000-", "bytes=4000-5000")
    ),
    *(
        header(f"x-ms-range-get-content-{name}", value, "GetBlob")
        for name in ("md5", "crc64")
        for value in ("true", "perhaps")
    ),
    Spoiled(
        "GetBlob",
        "400 InvalidHeaderValue HeaderName=x-ms-range-get-content-crc64",
        headers={
            "x-ms-range": "bytes=0-1",
            "x-ms-range-get-content-md5": "true",
            "x-ms-range-get-content-crc64": "true",
        },
    ),
    header("x-ms-structured-body", "XSM/2.0", "GetBlob"),
    *_keys("GetBlob")[:3],
    Spoiled("SetBlobProperties", "400 InvalidMd5", headers={"x-ms-blob-content-md5": "n0t=base64"}),
    *_metadata("SetBlobMetadata"),
    *_keys("SetBlobMetadata"),
    *_metadata("SnapshotBlob"),
    *_keys("SnapshotBlob"),
    without("x-ms-lease-action", "AcquireBlobLease"),
    header("x-ms-lease-action", "borrow", "AcquireBlobLease"),
    without("x-ms-lease-duration", "AcquireBlobLease"),
    *(
        header("x-ms-lease-duration", value, "AcquireBlobLease")
        for value in ("14", "61", "0", "-2", "x", "1e3", "15.0")
    ),
    header("x-ms-proposed-lease-id", "nonsense", "AcquireBlobLease"),
    without("x-ms-lease-id", "RenewBlobLease"),
    without("x-ms-lease-id", "ReleaseBlobLease"),
    without("x-ms-lease-id", "ChangeBlobLease"),
    without("x-ms-proposed-lease-id", "ChangeBlobLease"),
    header("x-ms-lease-id", "nonsense", "RenewBlobLease"),
    header("x-ms-lease-id", "nonsense", "ReleaseBlobLease"),
    header("x-ms-lease-id", "nonsense", "ChangeBlobLease"),
    header("x-ms-proposed-lease-id", "nonsense", "ChangeBlobLease"),
    *(header("x-ms-lease-break-period", value, "BreakBlobLease") for value in ("-1", "61", "x")),
    header("x-ms-delete-snapshots", "perhaps", "DeleteBlob"),
    Spoiled("DeleteBlob", "409 SnapshotsPresent", path="/con/page"),
    Spoiled(
        "DeleteBlob",
        "400 InvalidOperation",
        query={"snapshot": "{snapshot}"},
        headers={"x-ms-delete-snapshots": "include"},
        path="/con/page",
    ),
    parameter("deletetype", "gradual", "DeleteBlob"),
    Spoiled("DeleteBlob", "409 InvalidOperation", query={"deletetype": "permanent"}),
    header("x-ms-access-tier-if-modified-since", "tomorrow", "DeleteBlob", version="2026-04-06"),
    without("x-ms-access-tier", "SetBlobTier"),
    header("x-ms-access-tier", "Lukewarm", "SetBlobTier"),
    header("x-ms-access-tier", "Smart", "SetBlobTier"),
    header("x-ms-rehydrate-priority", "Yesterday", "SetBlobTier"),
    Spoiled("SetBlobTier", "400 InvalidBlobTier", headers={"x-ms-access-tier": "P10"}),
    *_document(
        "SetBlobTags",
        ("<Tags/>", "400 InvalidXmlDocument"),
        ("<Tags><TagSet><Other/></TagSet></Tags>", "400 InvalidXmlDocument"),
        ("<Tags><TagSet><Tag><Key>k</Key></Tag></TagSet></Tags>", "400 InvalidXmlDocument"),
        (_tags.replace("<Key>k</Key>", "<Key/>"), "400 EmptyTagName"),
        (_tags.replace("<Value>w", "<Value>?"), "400 InvalidTag"),
        (_tags.replace("<Key>k", "<Key>" + "k" * 129), "400 TagsTooLarge"),
        (_tags.replace("<Value>w", "<Value>" + "v" * 257), "400 TagsTooLarge"),
        (
            "<Tags><TagSet>" + "<Tag><Key>k</Key><Value>v</Value></Tag>" * 2 + "</TagSet></Tags>",
            "400 DuplicateTagNames",
        ),
        (
            "<Tags><TagSet>"
            + "".join(f"<Tag><Key>k{n}</Key><Value>v</Value></Tag>" for n in range(11))
            + "</TagSet></Tags>",
            "400 TagsTooLarge",
        ),
    ),
    *_digests("SetBlobTags"),
    header("x-ms-if-tags", "k = ", "SetBlobTags"),
    header("x-ms-if-tags", "k = ", "GetBlobTags"),
    header("x-ms-if-tags", "k = ", "SetBlobTier"),
    Spoiled("SetBlobTags", "412 ConditionNotMet", headers={"x-ms-if-tags": "k = 'other'"}),
    Spoiled("GetBlobTags", "412 ConditionNotMet", headers={"x-ms-if-tags": "k = 'other'"}),
    Spoiled("SetBlobTier", "412 ConditionNotMet", headers={"x-ms-if-tags": "k = 'other'"}),
    *(
        Spoiled(name, "412 LeaseIdMissing", path="/con/leased")
        for name in (
            "SetBlobTags",
            "SetBlobTier",
            "SetBlobMetadata",
            "SetBlobProperties",
            "DeleteBlob",
            "PutBlock",
        )
    ),
    without("x-ms-immutability-policy-until-date", "SetImmutabilityPolicy"),
    header("x-ms-immutability-policy-until-date", "tomorrow", "SetImmutabilityPolicy"),
    header("x-ms-immutability-policy-until-date", past, "SetImmutabilityPolicy"),
    header("x-ms-immutability-policy-mode", "ajar", "SetImmutabilityPolicy"),
    Spoiled("SetImmutabilityPolicy", "412 ConditionNotMet", headers={"If-Unmodified-Since": past}),
    Spoiled("SetImmutabilityPolicy", "409 InvalidOperation", path="/con/block"),
    without("x-ms-legal-hold", "SetLegalHold"),
    header("x-ms-legal-hold", "perhaps", "SetLegalHold"),
    Spoiled("SetLegalHold", "409 InvalidOperation", path="/con/block"),
]

_block_blobs = [
    *_creating("PutBlob"),
    *_digests("PutBlob"),
    without("x-ms-blob-type", "PutBlob"),
    header("x-ms-blob-type", "Blob", "PutBlob"),
    Spoiled("PutBlob", "400 InvalidMd5", headers={"x-ms-blob-content-md5": "nonsense"}),
    Spoiled(
        "PutBlob",
        "400 Md5Mismatch",
        headers={"x-ms-blob-content-md5": base64.b64encode(b"m" * 16).decode()},
    ),
    header("x-ms-structured-body", "XSM/2.0", "PutBlob"),
    Spoiled(
        "PutBlob",
        "400 MissingRequiredHeader HeaderName=x-ms-structured-content-length",
        headers={"x-ms-structured-body": "XSM/1.0; properties=crc64"},
    ),
    Spoiled(
        "PutBlob",
        "400 UnsupportedHeader HeaderName=x-ms-structured-body",
        headers={"x-ms-structured-body": "XSM/1.0; properties=crc64"},
        version="2024-08-04",
    ),
    Spoiled(
        "PutBlob",
        "413 RequestBodyTooLarge MaxLimit=5242880000",
        headers={"Content-Length": "5242880001"},
        closes=True,
    ),
    Spoiled(
        "PutBlob",
        "413 RequestBodyTooLarge MaxLimit=268435456",
        headers={"Content-Length": "268435457"},
        version="2016-05-31",
        closes=True,
    ),
    Spoiled(
        "PutBlob",
        "413 RequestBodyTooLarge MaxLimit=67108864",
        headers={"Content-Length": "67108865"},
        version="2015-12-11",
        closes=True,
    ),
    *_digests("PutBlock"),
    *_keys("PutBlock"),
    Spoiled(
        "PutBlock",
        "400 MissingRequiredQueryParameter QueryParameterName=blockid",
        query={"blockid": None},
    ),
    parameter("blockid", "!", "PutBlock"),
    parameter("blockid", "QUF", "PutBlock"),
    parameter("blockid", base64.b64encode(b"i" * 65).decode(), "PutBlock"),
    Spoiled("PutBlock", "400 InvalidBlobOrBlock", query={"blockid": "QUFBQQ=="}),
    Spoiled("PutBlock", "400 InvalidHeaderValue HeaderName=Content-Length HeaderValue=0", body=""),
    *(
        Spoiled(
            "PutBlock",
            f"413 RequestBodyTooLarge MaxLimit={limit}",
            headers={"Content-Length": str(limit + 1)},
            version=version,
            closes=True,
        )
        for version, limit in (
            ("2019-12-12", 4000 * 1024**2),
            ("2016-05-31", 100 * 1024**2),
            ("2015-12-11", 4 * 1024**2),
        )
    ),
    Spoiled(
        "PutBlock",
        "412 LeaseNotPresentWithBlobOperation",
        headers={"x-ms-lease-id": lease_id},
        path="/con/none",
    ),
    *_empty_body("PutBlockFromUrl"),
    parameter("blockid", "!", "PutBlockFromUrl"),
    header("x-ms-source-range", "nonsense", "PutBlockFromUrl"),
    Spoiled(
        "PutBlockFromUrl",
        "416 CannotVerifyCopySource",
        headers={"x-ms-source-range": "bytes=4000-5000"},
    ),
    Spoiled("PutBlockFromUrl", "400 InvalidMd5", headers={"x-ms-source-content-md5": "nonsense"}),
    Spoiled(
        "PutBlockFromUrl",
        "400 Md5Mismatch",
        headers={"x-ms-source-content-md5": base64.b64encode(b"m" * 16).decode()},
    ),
    header("x-ms-source-content-crc64", "nonsense", "PutBlockFromUrl"),
    Spoiled(
        "PutBlockFromUrl",
        "400 Crc64Mismatch",
        headers={"x-ms-source-content-crc64": base64.b64encode(b"m" * 8).decode()},
    ),
    *_creating("PutBlockList"),
    *_digests("PutBlockList"),
    *_document(
        "PutBlockList",
        ("<BlockList><Other>QUFB</Other></BlockList>", "400 InvalidXmlDocument"),
        (
            "<BlockList><Latest>!</Latest></BlockList>",
            "400 InvalidXmlNodeValue XmlNodeName=Latest XmlNodeValue=!",
        ),
        ("<BlockList><Latest/></BlockList>", "400 InvalidXmlNodeValue XmlNodeName=Latest"),
        ("<BlockList><Latest>QUFC</Latest></BlockList>", "400 InvalidBlockList"),
        ("<BlockList><Committed>QUFB</Committed></BlockList>", "400 InvalidBlockList"),
        ("<BlockList><Uncommitted>QUFC</Uncommitted></BlockList>", "400 InvalidBlockList"),
        (
            "<BlockList>" + "<Latest>QUFB</Latest>" * 50_001 + "</BlockList>",
            "400 BlockListTooLong",
        ),
    ),
    parameter("blocklisttype", "nonsense", "GetBlockList"),
    *_creating("PutBlobFromUrl"),
    *_empty_body("PutBlobFromUrl"),
    header("x-ms-copy-source-blob-properties", "perhaps", "PutBlobFromUrl"),
    header("x-ms-copy-source-tag-option", "SHARE", "PutBlobFromUrl"),
    *_creating("CopyBlob"),
    header("x-ms-copy-source-tag-option", "SHARE", "CopyBlob"),
    header("x-ms-rehydrate-priority", "Yesterday", "CopyBlob"),
    Spoiled(
        "CopyBlob",
        "400 InvalidHeaderValue HeaderName=x-ms-copy-source-tag-option",
        headers={"x-ms-copy-source-tag-option": "COPY", "x-ms-tags": "a=b"},
    ),
    *_creating("CopyBlobFromUrl"),
    *_document(
        "QueryBlob",
        (_query_body.replace("SQL", "XPATH"), "400 InvalidXmlNodeValue XmlNodeName=QueryType"),
        (
            _query_body.replace("SELECT * from BlobStorage", ""),
            "400 MissingRequiredXmlNode XmlNodeName=Expression",
        ),
    ),
]

_append_blobs = [
    *_creating("PutAppendBlob"),
    *_empty_body("PutAppendBlob"),
    *_digests("AppendBlock"),
    *_keys("AppendBlock"),
    Spoiled(
        "AppendBlock", "400 InvalidHeaderValue HeaderName=Content-Length HeaderValue=0", body=""
    ),
    *(
        Spoiled(
            "AppendBlock",
            f"413 RequestBodyTooLarge MaxLimit={limit}",
            headers={"Content-Length": str(limit + 1)},
            version=version,
            closes=True,
        )
        for version, limit in (("2022-11-02", 100 * 1024**2), ("2021-12-02", 4 * 1024**2))
    ),
    *(
        header(f"x-ms-blob-condition-{name}", value, operation)
        for operation in ("AppendBlock", "SealAppendBlob", "AppendBlockFromUrl")
        for name in ("appendpos", "maxsize")
        for value in ("x", "-1", "9" * 20)
        if (operation, name) != ("SealAppendBlob", "maxsize")
    ),
    *(
        Spoiled(
            operation,
            "412 AppendPositionConditionNotMet",
            headers={"x-ms-blob-condition-appendpos": "1"},
        )
        for operation in ("AppendBlock", "SealAppendBlob", "AppendBlockFromUrl")
    ),
    *(
        Spoiled(
            operation,
            "412 MaxBlobSizeConditionNotMet",
            headers={"x-ms-blob-condition-maxsize": "5"},
        )
        for operation in ("AppendBlock", "AppendBlockFromUrl")
    ),
    *_empty_body("AppendBlockFromUrl"),
    header("x-ms-source-range", "nonsense", "AppendBlockFromUrl"),
]

_page_blobs = [
    *_creating("PutPageBlob"),
    *_empty_body("PutPageBlob"),
    without("x-ms-blob-content-length", "PutPageBlob"),
    *(
        header("x-ms-blob-content-length", value, "PutPageBlob")
        for value in ("x", "-512", "511", str(8 * 1024**4 + 512), "9" * 30)
    ),
    *(
        header("x-ms-blob-sequence-number", value, "PutPageBlob")
        for value in ("x", "-1", str(2**63))
    ),
    *_digests("PutPage"),
    *_keys("PutPage"),
    without("x-ms-page-write", "PutPage"),
    header("x-ms-page-write", "append", "PutPage"),
    *(
        row
        for operation in ("PutPage", "ClearPage", "PutPageFromUrl")
        for row in (
            without("x-ms-range", operation),
            *(
                header("x-ms-range", value, operation)
                for value in ("nonsense", "bytes=0-", "bytes=511-0", "bytes=-512")
            ),
            *(
                header(f"x-ms-if-sequence-number-{name}", value, operation)
                for name in ("le", "lt", "eq")
                for value in ("x", "-1", str(2**63))
            ),
            Spoiled(
                operation,
                "412 SequenceNumberConditionNotMet",
                headers={"x-ms-if-sequence-number-lt": "0"},
            ),
            Spoiled(
                operation,
                "412 SequenceNumberConditionNotMet",
                headers={"x-ms-if-sequence-number-eq": "9"},
            ),
        )
    ),
    *(
        Spoiled(operation, "416 InvalidPageRange", headers={"x-ms-range": value})
        for operation in ("PutPage", "ClearPage")
        for value in ("bytes=1-512", "bytes=0-510", "bytes=1024-1535")
    ),
    Spoiled(
        "PutPage",
        "413 RequestBodyTooLarge MaxLimit=4194304",
        headers={"x-ms-range": f"bytes=0-{4 * 1024**2 + 511}"},
    ),
    Spoiled("PutPage", "400 InvalidHeaderValue HeaderName=Content-Length", body="x" * 511),
    Spoiled("PutPage", "400 InvalidHeaderValue HeaderName=Content-Length", body="x" * 1024),
    *_empty_body("ClearPage"),
    *_empty_body("PutPageFromUrl"),
    without("x-ms-source-range", "PutPageFromUrl"),
    header("x-ms-source-range", "bytes=0-510", "PutPageFromUrl"),
    header("x-ms-source-range", "nonsense", "PutPageFromUrl"),
    header("x-ms-page-write", "clear", "PutPageFromUrl"),
    *(
        header("x-ms-blob-content-length", value, "SetPageBlobProperties")
        for value in ("x", "-512", "511", str(8 * 1024**4 + 512))
    ),
    header("x-ms-sequence-number-action", "decrement", "SetPageBlobProperties"),
    Spoiled(
        "SetPageBlobProperties",
        "400 MissingRequiredHeader HeaderName=x-ms-blob-sequence-number",
        headers={"x-ms-sequence-number-action": "max"},
    ),
    Spoiled(
        "SetPageBlobProperties",
        "400 MissingRequiredHeader HeaderName=x-ms-sequence-number-action",
        headers={"x-ms-blob-sequence-number": "7"},
    ),
    Spoiled(
        "SetPageBlobProperties",
        "400 InvalidHeaderValue HeaderName=x-ms-blob-sequence-number",
        headers={"x-ms-sequence-number-action": "increment", "x-ms-blob-sequence-number": "7"},
    ),
    *_ranges("GetPageRanges"),
    *_paging("GetPageRanges"),
    Spoiled("GetPageRanges", "416 InvalidRange", headers={"x-ms-range": "bytes=4096-"}),
    parameter("prevsnapshot", "yesterday", "GetPageRanges"),
    Spoiled(
        "GetPageRanges",
        "409 PreviousSnapshotNotFound",
        query={"prevsnapshot": "2020-01-01T00:00:00.0000000Z"},
    ),
    Spoiled(
        "GetPageRanges",
        "400 PreviousSnapshotCannotBeNewer",
        query={"snapshot": "{page}", "prevsnapshot": "2090-01-01T00:00:00.0000000Z"},
    ),
    Spoiled(
        "IncrementalCopy",
        "409 IncrementalCopySourceMustBeSnapshot",
        headers={"x-ms-copy-source": "{url}/con/page?{sas}"},
    ),
    Spoiled("IncrementalCopy", "409 IncrementalCopyBlobMismatch", path="/con/page"),
    *_empty_body("IncrementalCopy"),
]

spoiled: tuple[Spoiled, ...] = (
    *_general(),
    *_account,
    *_containers,
    *_blobs,
    *_block_blobs,
    *_append_blobs,
    *_page_blobs,
)
