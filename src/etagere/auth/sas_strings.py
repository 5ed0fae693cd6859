"""The strings that shared access signatures sign, by kind, service and `sv`.

Azure: 'Create a service SAS', 'Create an account SAS', 'Create a user delegation SAS'.  Each form
is a row of items; an item is a field of the token, or one of the few things that are not.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from etagere.auth.request import ResourceName, SignedRequest
from etagere.auth.sas_token import Sas, SasKind

_service_words: Final[Mapping[str, str]] = {"b": "blob", "q": "queue", "t": "table", "f": "file"}

# Items that are computed; all other items are names of fields.
_canonical: Final = "RESOURCE"
_moment: Final = "MOMENT"
_headers: Final = "HEADERS"
_parameters: Final = "PARAMETERS"

_Form = tuple[str, ...]


def _items(text: str) -> _Form:
    return tuple(text.split())


_overrides: Final = " rscc rscd rsce rscl rsct"
_ranges: Final = " spk srk epk erk"
_key: Final = " skoid sktid skt ske sks skv"

_account_before_2020_12_06: Final = _items("sp ss srt st se sip spr sv")
_account: Final = _items("sp ss srt st se sip spr sv ses")

# (the first `sv` that has it, the form), newest first.
_blob: Final = (
    ("2020-12-06", _items("sp st se RESOURCE si sip spr sv sr MOMENT ses" + _overrides)),
    ("2018-11-09", _items("sp st se RESOURCE si sip spr sv sr MOMENT" + _overrides)),
    ("2015-04-05", _items("sp st se RESOURCE si sip spr sv" + _overrides)),
    ("2013-08-15", _items("sp st se RESOURCE si sv" + _overrides)),
    ("2012-02-12", _items("sp st se RESOURCE si sv")),
    ("", _items("sp st se RESOURCE si")),
)
# Files kept the form that it began with.
_file: Final = _blob[2:]
_queue: Final = (
    ("2015-04-05", _items("sp st se RESOURCE si sip spr sv")),
    ("2012-02-12", _items("sp st se RESOURCE si sv")),
    ("", _items("sp st se RESOURCE si")),
)
_table: Final = tuple((since, (*form, *_ranges.split())) for since, form in _queue)
_service_forms: Final[Mapping[str, tuple[tuple[str, _Form], ...]]] = {
    "b": _blob,
    "f": _file,
    "q": _queue,
    "t": _table,
}

_agents: Final = " saoid suoid scid"
_user: Final = " skdutid sduoid"
_delegated: Final = "sp st se RESOURCE" + _key
_blob_delegation: Final = (
    (
        "2026-04-06",
        _items(
            _delegated
            + _agents
            + _user
            + " sip spr sv sr MOMENT ses HEADERS PARAMETERS"
            + _overrides
        ),
    ),
    (
        "2025-07-05",
        _items(_delegated + _agents + _user + " sip spr sv sr MOMENT ses" + _overrides),
    ),
    ("2020-12-06", _items(_delegated + _agents + " sip spr sv sr MOMENT ses" + _overrides)),
    ("2020-02-10", _items(_delegated + _agents + " sip spr sv sr MOMENT" + _overrides)),
    ("2018-11-09", _items(_delegated + " sip spr sv sr MOMENT" + _overrides)),
)
_delegation_forms: Final[Mapping[str, tuple[tuple[str, _Form], ...]]] = {
    "b": _blob_delegation,
    "q": (("2025-07-05", _items(_delegated + _user + " sip spr sv")),),
    "f": (("2025-07-05", _items(_delegated + _user + " sip spr sv" + _overrides)),),
    # The documentation does not say yet; the service SAS's tail after the queue's head.
    "t": (("2025-07-05", _items(_delegated + _user + " sip spr sv" + _ranges)),),
}
_forms_interchangeable_since: Final = "2020-12-06"
"""Which version brought the newest lines in is not documented, and SDKs disagree: the JavaScript
one adds the user's from 2025-07-05, the Python one with whatever version it speaks.  From here on
every form is tried, the one of the token's own version first."""
_newest_fields: Final = ("skdutid", "sduoid", "srh", "srq")


def canonical_resource(sas: Sas, account: str, name: ResourceName) -> str:
    """The resource that the token must have been made for, for this request to be covered.

    Not percent-encoded, and with the service in front since 2015-02-21.
    """
    prefix = f"/{_service_words[name.service]}/{account}/"
    if sas.version < "2015-02-21":
        prefix = f"/{account}/"
    if name.service == "t":
        return prefix + name.container.lower()
    if name.service == "q":
        return prefix + name.container
    container = name.container or "$root"
    if sas.resource in ("c", "s") or not name.path:
        return prefix + container
    if sas.resource == "d":
        if sas.directory_depth == 0:
            return prefix + container
        directory = "/".join(name.path.split("/", sas.directory_depth)[: sas.directory_depth])
        return f"{prefix}{container}/{directory}"
    return f"{prefix}{container}/{name.path}"


def string_to_sign(sas: Sas, request: SignedRequest, name: ResourceName) -> str:
    """The string of the token's own version: what an error shows."""
    return next(strings_to_sign(sas, request, name), "")


def strings_to_sign(sas: Sas, request: SignedRequest, name: ResourceName) -> Iterator[str]:
    """Every string that would make the token genuine, the likeliest first; none, if there are none.

    Nothing that the token says is left out of a string that is tried: a field that only a newer
    form signs excludes the older ones.
    """
    if sas.kind is SasKind.ACCOUNT:
        form = _account if sas.version >= "2020-12-06" else _account_before_2020_12_06
        # Each item ends with a line break, the last one too.
        yield f"{request.account}\n" + "".join(f"{sas.fields.get(item, '')}\n" for item in form)
        return
    canonical = canonical_resource(sas, request.account, name)
    for form in _forms(sas, name.service):
        yield _join(form, sas, request, name, canonical)
    if sas.resource == "d" and sas.directory_depth == 0:
        # The root directory's name is empty for some SDKs, and a slash for others.
        for root in (f"{canonical}/", f"{canonical}//"):
            for form in _forms(sas, name.service):
                yield _join(form, sas, request, name, root)


def _forms(sas: Sas, service: str) -> Iterator[_Form]:
    if sas.kind is SasKind.SERVICE:
        yield next(form for since, form in _service_forms[service] if sas.version >= since)
        return
    forms = _delegation_forms[service]
    own = next((form for since, form in forms if sas.version >= since), None)
    if own is None:
        return  # user delegation came to this service later than the token's version
    said = {name for name in _newest_fields if sas.fields.get(name)}
    if said <= _signs(own):
        yield own
    if sas.version >= _forms_interchangeable_since:
        for since, form in forms:
            if form is not own and since >= _forms_interchangeable_since and said <= _signs(form):
                yield form


def _signs(form: _Form) -> frozenset[str]:
    signed = set(form)
    if _headers in signed:
        signed |= {"srh", "srq"}
    return frozenset(signed)


def _join(form: _Form, sas: Sas, request: SignedRequest, name: ResourceName, canonical: str) -> str:
    fields = sas.fields
    lines = []
    for item in form:
        compute = _computed.get(item)
        if item == _canonical:
            lines.append(canonical)
        elif compute is not None:
            lines.append(compute(sas, request, name))
        else:
            lines.append(fields.get(item, ""))
    return "\n".join(lines)


def _snapshot_or_version(sas: Sas, _request: SignedRequest, name: ResourceName) -> str:
    if sas.resource == "bs":
        return name.snapshot
    return name.version_id if sas.resource == "bv" else ""


def _signed_headers(sas: Sas, request: SignedRequest, _name: ResourceName) -> str:
    """`name:value` and a line break for each header that `srh` lists, as this request has them."""
    return "".join(
        f"{header}:{request.headers.get(header.lower(), '')}\n"
        for header in _listed(sas.fields.get("srh", ""))
    )


def _signed_parameters(sas: Sas, request: SignedRequest, _name: ResourceName) -> str:
    """A line break and `name:value` for each query parameter that `srq` lists."""
    sent = dict(reversed(request.query))
    return "".join(
        f"\n{parameter}:{sent.get(parameter, '')}"
        for parameter in _listed(sas.fields.get("srq", ""))
    )


def _listed(text: str) -> Iterator[str]:
    return (part for part in text.split(",") if part)


_computed: Final[Mapping[str, Callable[[Sas, SignedRequest, ResourceName], str]]] = {
    _moment: _snapshot_or_version,
    _headers: _signed_headers,
    _parameters: _signed_parameters,
}
