"""Conditional headers: may this operation go ahead on the resource as it is now?

Sources: "Specifying conditional headers for Blob service operations" (two evaluations: one for
reads since 2013-08-15, one for writes and for older reads), and what the live services were
recorded to answer.  The answer is data; what an operation makes of it (which 404, how its protocol
spells a code) is the operation's business.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, unique
from types import MappingProxyType
from typing import Final, NamedTuple

from etagere.base.clock import Timestamp, ticks_per_second
from etagere.base.errors import Refused, invalid_header
from etagere.kernel.dates import holds_several_dates, parse_http_date
from etagere.kernel.etag import EtagCondition, parse_etags
from etagere.kernel.tag_predicate import TagPredicate, TagSyntaxError, parse_tag_condition

multiple_read_conditions_since: Final = "2013-08-15"
unsatisfiable_condition_since: Final = "2016-05-31"

_no_tags: Final[Mapping[str, str]] = MappingProxyType({})


@unique
class Verdict(Enum):
    """What conditions come to; the values are the status and code of the refusal."""

    PROCEED = (0, "")
    MISSING = (404, "")
    """There is nothing to evaluate on: the operation answers its own 404."""
    NOT_MODIFIED = (304, "ConditionNotMet")
    FAILED = (412, "ConditionNotMet")
    EXISTS = (409, "BlobAlreadyExists")
    UNSATISFIABLE = (400, "UnsatisfiableCondition")
    MULTIPLE = (400, "MultipleConditionHeadersNotSupported")
    SEVERAL_ETAGS = (400, "InvalidHeaderValue")
    SOURCE_NOT_MODIFIED = (304, "CannotVerifyCopySource")
    SOURCE_FAILED = (412, "CannotVerifyCopySource")
    SOURCE_UNMET = (412, "SourceConditionNotMet")

    @property
    def status(self) -> int:
        return self.value[0]

    @property
    def code(self) -> str:
        return self.value[1]


@unique
class WriteKind(Enum):
    """Writes differ in what they make of `If-None-Match: *` on a resource that exists."""

    CREATE = "create"
    """Put Blob, Put Block List, Put Blob From URL, copies, Data Lake create and rename."""
    UPDATE = "update"
    SET_PROPERTIES = "set properties"
    FLUSH = "flush"
    """Data Lake flush."""


wildcard_on_existing: Final[Mapping[WriteKind, Verdict]] = {
    WriteKind.CREATE: Verdict.EXISTS,
    WriteKind.UPDATE: Verdict.FAILED,
    WriteKind.SET_PROPERTIES: Verdict.PROCEED,
    WriteKind.FLUSH: Verdict.NOT_MODIFIED,
}


@unique
class SourceKind(Enum):
    """The two ways in which the source of a copy is read."""

    FROM_URL = "from url"
    """The operation reads the source itself: its answer is passed on."""
    COPY = "copy"
    """Copy Blob."""


class Current(NamedTuple):
    """The resource as the transaction sees it.  `tags` matters only to a tag condition."""

    etag: str
    last_modified: Timestamp
    tags: Mapping[str, str] = _no_tags


@dataclass(frozen=True, slots=True)
class Conditions:
    """What the headers of one request demand of one resource."""

    if_match: EtagCondition | None = None
    if_none_match: EtagCondition | None = None
    if_modified_since: Timestamp | None = None
    if_unmodified_since: Timestamp | None = None
    if_tags: TagPredicate | None = None

    @property
    def absent(self) -> bool:
        return self == unconditional


unconditional: Final = Conditions()


@dataclass(frozen=True, slots=True)
class HeaderNames:
    """How a family of conditional headers is called."""

    if_match: str = "If-Match"
    if_none_match: str = "If-None-Match"
    if_modified_since: str = "If-Modified-Since"
    if_unmodified_since: str = "If-Unmodified-Since"
    if_tags: str = "x-ms-if-tags"
    keys: tuple[str, str, str, str, str] = field(init=False)
    """The same in lower case, in the order above."""

    def __post_init__(self) -> None:
        keys = (
            self.if_match.lower(),
            self.if_none_match.lower(),
            self.if_modified_since.lower(),
            self.if_unmodified_since.lower(),
            self.if_tags.lower(),
        )
        object.__setattr__(self, "keys", keys)


target_headers: Final = HeaderNames()
source_headers: Final = HeaderNames(
    "x-ms-source-if-match",
    "x-ms-source-if-none-match",
    "x-ms-source-if-modified-since",
    "x-ms-source-if-unmodified-since",
    "x-ms-source-if-tags",
)
blob_headers: Final = HeaderNames(
    "x-ms-blob-if-match",
    "x-ms-blob-if-none-match",
    "x-ms-blob-if-modified-since",
    "x-ms-blob-if-unmodified-since",
    "x-ms-if-tags",
)


def parse_conditions(headers: Mapping[str, str], names: HeaderNames = target_headers) -> Conditions:
    """Read a request's conditional headers, given all of its headers by lower-case name.

    A date that is none is ignored, as the live service ignores `null`; two dates in one header and
    a tag condition that is none are refused with 400 InvalidHeaderValue.
    """
    match, none_match, modified, unmodified, tags = map(headers.get, names.keys)
    if not (match or none_match or modified or unmodified or tags):
        return unconditional
    return Conditions(
        parse_etags(match) if match else None,
        parse_etags(none_match) if none_match else None,
        _date(names.if_modified_since, modified) if modified else None,
        _date(names.if_unmodified_since, unmodified) if unmodified else None,
        _tags(names.if_tags, tags) if tags else None,
    )


def evaluate_read(conditions: Conditions, current: Current | None, version: str) -> Verdict:
    """Evaluate for a GET or HEAD: If-Match and If-Unmodified-Since, and one of the other two."""
    if current is None:
        return Verdict.MISSING
    if conditions is unconditional:
        return Verdict.PROCEED
    if version < multiple_read_conditions_since:
        verdict = _old_read(conditions, current)
    elif not (_match_holds(conditions, current) and _unmodified_holds(conditions, current)):
        verdict = Verdict.FAILED
    else:
        verdict = _freshness(conditions, current, version)
    return _with_tags(verdict, conditions, current)


def evaluate_write(
    conditions: Conditions,
    current: Current | None,
    kind: WriteKind,
    *,
    uncommitted_matches: bool = False,
) -> Verdict:
    """Evaluate for an operation that changes something.

    `current` is None for a blob that is missing or has only uncommitted blocks; in the latter case
    `If-Match: *` held before 2017-04-17, which `uncommitted_matches` says.
    """
    if conditions is unconditional:
        return Verdict.PROCEED
    verdict = _one_condition(conditions, current, kind, uncommitted_matches=uncommitted_matches)
    if current is not None:
        return _with_tags(verdict, conditions, current)
    if verdict is Verdict.PROCEED and conditions.if_tags is not None and kind is WriteKind.CREATE:
        # Unconfirmed on the live service: a blob that is not there has no tags that could match.
        return Verdict.FAILED
    return verdict


def evaluate_source(conditions: Conditions, current: Current | None, kind: SourceKind) -> Verdict:
    """Evaluate the `x-ms-source-if-*` headers; they combine as those of a read do."""
    if current is None:
        return Verdict.MISSING
    if conditions is unconditional:
        return Verdict.PROCEED
    from_url = kind is SourceKind.FROM_URL
    if not (_match_holds(conditions, current) and _unmodified_holds(conditions, current)):
        return Verdict.SOURCE_FAILED if from_url else Verdict.SOURCE_UNMET
    if not _fresh(conditions, current):
        return Verdict.SOURCE_NOT_MODIFIED if from_url else Verdict.SOURCE_UNMET
    if conditions.if_tags is not None and not conditions.if_tags.matches(current.tags):
        return Verdict.SOURCE_FAILED if from_url else Verdict.FAILED
    return Verdict.PROCEED


def several_etags_refusal(conditions: Conditions, names: HeaderNames = target_headers) -> Refused:
    """What `Verdict.SEVERAL_ETAGS` is refused with: the header that named more than one."""
    named = conditions.if_match
    if named is not None and named.count > 1:
        return invalid_header(names.if_match, named.text)
    named = conditions.if_none_match
    assert named is not None
    return invalid_header(names.if_none_match, named.text)


def _date(name: str, value: str) -> Timestamp | None:
    moment = parse_http_date(value)
    if moment is None and holds_several_dates(value):
        raise invalid_header(name, value)
    return moment


def _tags(name: str, value: str) -> TagPredicate:
    try:
        return parse_tag_condition(value)
    except TagSyntaxError as error:
        raise invalid_header(name, value) from error


def _match_holds(conditions: Conditions, current: Current) -> bool:
    return conditions.if_match is None or conditions.if_match.matches(current.etag)


def _modified_after(current: Current, moment: Timestamp) -> bool:
    """Last-Modified is compared in the whole seconds in which clients got to know it."""
    return current.last_modified // ticks_per_second * ticks_per_second > moment


def _unmodified_holds(conditions: Conditions, current: Current) -> bool:
    moment = conditions.if_unmodified_since
    return moment is None or not _modified_after(current, moment)


def _fresh(conditions: Conditions, current: Current) -> bool:
    """If-None-Match or If-Modified-Since: where both are there, either suffices."""
    none_match, moment = conditions.if_none_match, conditions.if_modified_since
    if none_match is not None and not none_match.matches(current.etag):
        return True
    if moment is not None:
        return _modified_after(current, moment)
    return none_match is None


def _freshness(conditions: Conditions, current: Current, version: str) -> Verdict:
    none_match = conditions.if_none_match
    if none_match is not None and none_match.any and version >= unsatisfiable_condition_since:
        return Verdict.UNSATISFIABLE
    return Verdict.PROCEED if _fresh(conditions, current) else Verdict.NOT_MODIFIED


def _with_tags(verdict: Verdict, conditions: Conditions, current: Current) -> Verdict:
    """Tags are looked at last, and unmet are 412 for reads too."""
    if verdict is not Verdict.PROCEED or conditions.if_tags is None:
        return verdict
    return Verdict.PROCEED if conditions.if_tags.matches(current.tags) else Verdict.FAILED


def _objection(conditions: Conditions) -> Verdict | None:
    """What speaks against a combination of headers where only one condition may be evaluated."""
    match, none_match = conditions.if_match, conditions.if_none_match
    matching = match is not None or conditions.if_unmodified_since is not None
    differing = none_match is not None or conditions.if_modified_since is not None
    if matching and differing:
        return Verdict.MULTIPLE
    if (match is not None and match.count > 1) or (none_match is not None and none_match.count > 1):
        return Verdict.SEVERAL_ETAGS
    return None


def _one_condition(
    conditions: Conditions, current: Current | None, kind: WriteKind, *, uncommitted_matches: bool
) -> Verdict:
    objection = _objection(conditions)
    if objection is not None:
        return objection
    # An ETag stands before the date that came with it.
    match, none_match = conditions.if_match, conditions.if_none_match
    if current is None:
        if match is None or (match.any and uncommitted_matches):
            return Verdict.PROCEED
        return Verdict.FAILED
    if match is not None:
        return _met(holds=match.matches(current.etag))
    if none_match is not None:
        if none_match.any:
            return wildcard_on_existing[kind]
        return _met(holds=not none_match.matches(current.etag))
    if conditions.if_modified_since is not None:
        return _met(holds=_modified_after(current, conditions.if_modified_since))
    return _met(holds=_unmodified_holds(conditions, current))


def _old_read(conditions: Conditions, current: Current) -> Verdict:
    verdict = _one_condition(conditions, current, WriteKind.UPDATE, uncommitted_matches=False)
    differing = conditions.if_none_match is not None or conditions.if_modified_since is not None
    return Verdict.NOT_MODIFIED if verdict is Verdict.FAILED and differing else verdict


def _met(*, holds: bool) -> Verdict:
    return Verdict.PROCEED if holds else Verdict.FAILED
