"""Tokens made by hand, field by field, for the tests of this folder."""

from urllib.parse import quote

from auth_samples import account, key, now, query_pairs

from etagere.auth.identity import SasIdentity
from etagere.auth.request import ResourceName, SignedRequest
from etagere.auth.sas import parse, string_to_sign, verify
from etagere.auth.signing_key import SigningKey
from etagere.auth.stored_policy import StoredPolicy
from etagere.base.clock import Timestamp

Fields = dict[str, str]

blob = ResourceName("b", "c", "dir/b")
container = ResourceName("b", "c")
queue = ResourceName("q", "q1")
table = ResourceName("t", "People")
file = ResourceName("f", "s1", "dir/f")

account_fields: Fields = {
    "sv": "2021-12-02",
    "ss": "bqtf",
    "srt": "sco",
    "sp": "rwdlacup",
    "st": "2026-03-01T11:00:00Z",
    "se": "2026-03-01T13:00:00Z",
}
blob_fields: Fields = {
    "sv": "2021-12-02",
    "sr": "b",
    "sp": "rw",
    "st": "2026-03-01T11:00:00Z",
    "se": "2026-03-01T13:00:00Z",
}
queue_fields: Fields = {"sv": "2021-12-02", "sp": "raup", "se": "2026-03-01T13:00:00Z"}
table_fields: Fields = {
    "sv": "2021-12-02",
    "tn": "People",
    "sp": "raud",
    "se": "2026-03-01T13:00:00Z",
}
file_fields: Fields = {"sv": "2021-12-02", "sr": "f", "sp": "rw", "se": "2026-03-01T13:00:00Z"}


def encoded(fields: Fields) -> str:
    return "&".join(f"{name}={quote(text, safe='')}" for name, text in fields.items())


def carrying(
    token: str,
    name: ResourceName,
    *,
    headers: Fields | None = None,
    secure: bool = True,
    client_ip: str = "127.0.0.1",
    method: str = "GET",
) -> SignedRequest:
    """A request for the resource, with the token as its query."""
    return SignedRequest(
        method=method,
        raw_path=f"/{account}/{name.container}/{name.path}",
        query=query_pairs(token),
        raw_query=token,
        headers=headers or {},
        account=account,
        service=name.service,
        version="2021-12-02",
        secure=secure,
        client_ip=client_ip,
        secondary=name.secondary,
    )


def signed_token(fields: Fields, name: ResourceName, by: SigningKey = key) -> str:
    """Sign what the server itself would sign; other tests check that this is the right string."""
    unsigned = {**fields, "sig": "x"}
    sas = parse(unsigned.items())
    text = string_to_sign(sas, carrying("", name), name)
    return encoded({**fields, "sig": by.signature(text)})


def verified(
    token: str,
    name: ResourceName,
    *,
    moment: Timestamp = now,
    policy: StoredPolicy | None = None,
    keys: tuple[SigningKey, ...] = (key,),
    secure: bool = True,
    client_ip: str = "127.0.0.1",
) -> SasIdentity:
    request = carrying(token, name, secure=secure, client_ip=client_ip)
    return verify(parse(request.query), request, name, keys, moment, policy)
