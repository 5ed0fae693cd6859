"""Who may open a connection (SASL), and what that alone allows."""

from etagere.auth.bus_sas import Grant
from etagere.base.clock import timestamp_never
from etagere.frontends.bus_amqp.cbs import TokenPolicy
from etagere.frontends.bus_amqp.grants import Grants
from etagere.protocols.amqp.events import SaslShown


class SaslJudge:
    __slots__ = ("_certified", "_grants", "_policy")

    def __init__(self, policy: TokenPolicy, grants: Grants, *, certified: bool) -> None:
        self._policy = policy
        self._grants = grants
        self._certified = certified

    def approves(self, shown: SaslShown) -> bool:
        """Anonymous clients show tokens later; a plain login is a rule's name and key."""
        match shown.mechanism:
            case "ANONYMOUS" | "MSSBCBS":
                return True
            case "PLAIN":
                return self._plain(shown.response)
            case "EXTERNAL":
                return self._certified
            case _:
                return False

    def _plain(self, response: bytes) -> bool:
        """The rule's rights are the connection's, on everything (RFC 4616: authzid, name, key)."""
        parts = response.split(b"\0")
        if len(parts) != 3:
            return False
        try:
            name, key = parts[1].decode(), parts[2].decode()
        except UnicodeDecodeError:
            return False
        if not self._policy.check:
            return True
        rule = self._policy.find_rule("", name)
        if rule is None or not rule.has_key(key):
            return False
        self._grants.add(Grant("", rule.rights, timestamp_never))
        return True
