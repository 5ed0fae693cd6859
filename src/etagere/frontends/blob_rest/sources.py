"""The source of a copy: a blob of this server, or whatever its URL brings.

(Azure: 'Copy Blob', 'Put Blob From URL', authorization of the source.)  A source that this server
holds is authorized as a GET of it would be: by the SAS in its URL, by the bearer token in
`x-ms-copy-source-authorization`, because it is public, or, for the copies that allow it, because it
is in the account that signed the request.
"""

from typing import Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

from etagere.auth.identity import BearerIdentity, SharedKeyIdentity
from etagere.base.errors import Refused, invalid_header
from etagere.frontends.blob_rest.call import BlobCall
from etagere.frontends.common.addressing import resolve
from etagere.frontends.common.headers import required
from etagere.frontends.common.message import EmptyBody, Request
from etagere.frontends.common.operations import Resource
from etagere.services.blob.blobs import Where

header: Final = "x-ms-copy-source"
authorization_header: Final = "x-ms-copy-source-authorization"
url_chars_max: Final = 2048


class OwnBlob(NamedTuple):
    where: Where
    url: str
    account: str
    kind_of_snapshot: bool


class OtherUrl(NamedTuple):
    url: str
    headers: dict[str, str]


Source = OwnBlob | OtherUrl


def split_url(name: str, url: str) -> SplitResult:
    """The parts of a URL that a header has; what has none (`http://[`) is refused."""
    try:
        return urlsplit(url)
    except ValueError:
        raise invalid_header(name, url) from None


async def find_source(call: BlobCall, *, same_account_is_enough: bool) -> Source:
    """Where the copy comes from, found to be open to whoever asks; raises Refused."""
    url = required(call.request, header)
    parts = split_url(header, url)
    if parts.scheme not in ("http", "https") or not parts.netloc or len(url) > url_chars_max:
        raise invalid_header(header, url)
    token = call.header(authorization_header)
    if not _is_ours(call, parts.netloc):
        # A bearer token is only taken together with a version.
        headers = {"Authorization": token, "x-ms-version": call.version} if token else {}
        return OtherUrl(url, headers)
    headers = {"host": parts.netloc, "x-ms-version": call.version}
    if token:
        headers["authorization"] = token
    request = Request(
        method="GET",
        raw_path=parts.path or "/",
        raw_query=parts.query,
        headers=headers,
        body=EmptyBody(),
        client_ip=call.request.client_ip,
        secure=call.request.secure,
    )
    source = await _admit(call, request, trusted=same_account_is_enough)
    if _tells_tags(call):
        source.may_use_tags()
    if source.target.resource is not Resource.ITEM:
        raise invalid_header(header, url)
    where = source.where()
    return OwnBlob(where, url, source.account.name, bool(where.snapshot))


def _tells_tags(call: BlobCall) -> bool:
    """Whether the copy, or that there is one, says which tags the source has."""
    option = call.header("x-ms-copy-source-tag-option") or ""
    return option.upper() == "COPY" or "x-ms-source-if-tags" in call.request.headers


def _is_ours(call: BlobCall, netloc: str) -> bool:
    """Whether a URL leads back here: the same host and port, or another account's of this port."""
    own = call.request.host.lower()
    if _without_alias(netloc.lower()) == _without_alias(own):
        return True
    other, ours = resolve(netloc, "/x"), resolve(own, "/x")
    return (
        other.host_style
        and ours.host_style
        and netloc.partition(".")[2].lower() == own.partition(".")[2]
    )


def _without_alias(netloc: str) -> str:
    """Host and port, of two names for this machine always the same one."""
    host, colon, port = netloc.partition(":")
    return f"127.0.0.1{colon}{port}" if host == "localhost" else netloc


async def _admit(call: BlobCall, request: Request, *, trusted: bool) -> BlobCall:
    """The source as a call of its own, authorized."""
    signed = isinstance(call.identity, SharedKeyIdentity | BearerIdentity)
    if trusted and signed and "sig" not in request.query and "authorization" not in request.headers:
        found = call.inner.locate(request)
        assert isinstance(found, BlobCall)
        if found.account.name == call.account.name:
            found.version = call.version
            return found
    admitted = await call.inner.admit(request)
    assert isinstance(admitted, BlobCall)
    return admitted


def cannot_verify(refused: Refused) -> Refused:
    """What the From URL operations make of a source's refusal: its status, and a code of theirs."""
    statuses = {
        "BlobNotFound": 404,
        "ContainerNotFound": 404,
        "ResourceNotFound": 404,
        "NoAuthenticationInformation": 401,
        "InvalidRange": 416,
        "BlobArchived": 409,
        "BlobUsesCustomerSpecifiedEncryption": 409,
        "BlobDoesNotUseCustomerSpecifiedEncryption": 409,
    }
    status = refused.status or statuses.get(refused.code, 403)
    return source_refused(status, status, refused.code)


def source_refused(status: int, source_status: int, code: str) -> Refused:
    """CannotVerifyCopySource, saying what the source answered; `code` may be ""."""
    details = {"CopySourceStatusCode": str(source_status)}
    headers = {"x-ms-copy-source-status-code": str(source_status)}
    if code:
        details["CopySourceErrorCode"] = code
        headers["x-ms-copy-source-error-code"] = code
    return Refused("CannotVerifyCopySource", details, headers=headers, status=status)
