"""What was proved once and need not be proved again: signatures of tokens.

Only what cannot change is remembered: that these bytes, for this resource, were signed with this
very key object.  The time, the stored policy, the client's address and the protocol are looked at
on every use; an account whose keys were changed has new key objects, which nothing was proved with.
"""

from collections.abc import Sequence
from typing import Final

from etagere.auth.claims import Claims
from etagere.auth.identity import SasIdentity
from etagere.auth.lru import Lru
from etagere.auth.request import Origin, ResourceName, SignedRequest
from etagere.auth.sas import (
    Proof,
    canonical_resource,
    check,
    check_origin,
    check_window,
    effective,
    parse,
    prove,
)
from etagere.auth.sas_token import Sas, SasKind, sas_field_names
from etagere.auth.signing_key import SigningKey
from etagere.auth.stored_policy import StoredPolicy
from etagere.base.clock import Timestamp

tokens_max: Final = 4096
token_chars_max: Final = 4096
"""Longer ones are verified anew each time: the cache's memory is bounded by both."""


_Covered = tuple[str, str, str]


class _Proved:
    """One token, and what it was last proved for and with."""

    __slots__ = ("account", "covered", "identity", "key", "name", "proof", "sas")

    def __init__(
        self,
        sas: Sas,
        proof: Proof,
        name: ResourceName,
        covered: _Covered,
        key: SigningKey,
    ) -> None:
        self.sas = sas
        self.proof = proof
        self.account = proof.account
        self.name = name
        self.covered = covered
        self.key = key
        always_same = sas.version and not (sas.needs_policy or sas.needs_bearer)
        self.identity: SasIdentity | None = effective(proof, None) if always_same else None
        """None where more than the time and the client decides on each use."""

    def holds_for(self, account: str, name: ResourceName, keys: Sequence[SigningKey]) -> bool:
        if self.account != account:
            return False
        if self.name != name and self.covered != _covered(self.sas, account, name):
            return False
        index = self.proof.key_index
        return index < len(keys) and keys[index] is self.key


class SasCache:
    """Proved tokens by the whole query that they came in, and by themselves.

    Most requests repeat a query exactly; those whose own parameters vary share one entry.
    """

    def __init__(self, entries_max: int = tokens_max) -> None:
        self._by_query: Lru[str, _Proved] = Lru(entries_max)
        self._by_signature: Lru[str, _Proved] = Lru(entries_max)

    def __len__(self) -> int:
        return len(self._by_query) + len(self._by_signature)

    def parse(self, request: SignedRequest) -> Sas:
        """The token that the request's query carries; raises Refused where it is malformed."""
        proved = self._by_query.get(request.raw_query)
        if proved is not None:
            return proved.sas
        pairs = [pair for pair in request.query if pair[0] in sas_field_names]
        fields = dict(pairs)
        proved = self._by_signature.get(fields.get("sig", ""))
        if proved is not None and len(fields) == len(pairs) and proved.sas.fields == fields:
            return proved.sas
        return parse(pairs)

    def recall(
        self,
        raw_query: str,
        account: str,
        name: ResourceName,
        keys: Sequence[SigningKey],
        now: Timestamp,
        origin: Origin,
    ) -> SasIdentity | None:
        """Whom a query that came before, whole, still stands for; None where that takes more than
        a look: it is new, for another resource, or hangs on a policy or a user."""
        proved = self._by_query.get(raw_query)
        if proved is None or proved.identity is None or not proved.holds_for(account, name, keys):
            return None
        check_window(proved.identity, now)
        check_origin(proved.sas, origin)
        return proved.identity

    def verify(
        self,
        sas: Sas,
        request: SignedRequest,
        name: ResourceName,
        keys: Sequence[SigningKey],
        now: Timestamp,
        policy: StoredPolicy | None = None,
        bearer: Claims | None = None,
    ) -> SasIdentity:
        """What `sas.verify` does, without signing what was signed before."""
        raw_query = request.raw_query
        proved = self._by_query.get(raw_query)
        if proved is None:
            proved = self._by_signature.get(sas.signature)
            if proved is not None and proved.sas is sas and len(raw_query) <= token_chars_max:
                self._by_query.put(raw_query, proved)
        if (
            proved is None
            or proved.sas is not sas
            or not proved.holds_for(request.account, name, keys)
        ):
            proof = prove(sas, request, name, keys)
            self._remember(sas, proof, raw_query, name, keys)
            return check(proof, request, now, policy, bearer)
        identity = proved.identity
        if identity is None:
            return check(proved.proof, request, now, policy, bearer)
        check_window(identity, now)
        check_origin(proved.proof.sas, request)
        return identity

    def _remember(
        self,
        sas: Sas,
        proof: Proof,
        raw_query: str,
        name: ResourceName,
        keys: Sequence[SigningKey],
    ) -> None:
        if sas.fields.get("srh") or sas.fields.get("srq"):
            return  # each request brings other text to sign
        if len(raw_query) > token_chars_max:
            return
        covered = _covered(sas, proof.account, name)
        proved = _Proved(sas, proof, name, covered, keys[proof.key_index])
        self._by_query.put(raw_query, proved)
        self._by_signature.put(sas.signature, proved)


def _covered(sas: Sas, account: str, name: ResourceName) -> _Covered:
    """Equal for two resources if, and only if, one signature covers both."""
    if sas.kind is SasKind.ACCOUNT:
        return (account, "", "")
    moment = ""
    if sas.resource == "bs":
        moment = name.snapshot
    elif sas.resource == "bv":
        moment = name.version_id
    return (name.service, canonical_resource(sas, account, name), moment)
