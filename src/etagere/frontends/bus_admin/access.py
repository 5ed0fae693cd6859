"""Who may do what over HTTP: the Authorization header of administration and runtime requests."""

import re
from typing import Final

from etagere.auth.bus_sas import FindRule, path_of, prefix, verify
from etagere.base.clock import Clock
from etagere.base.errors import Refused
from etagere.frontends.bus_admin import errors
from etagere.frontends.common.message import Request

_bearer: Final = re.compile(r"bearer .*|[\w-]+\.[\w-]+\.[\w-]*", re.ASCII | re.IGNORECASE)
"""Go's administration client sends a JSON web token without a word in front."""


class Access:
    def __init__(
        self, find_rule: FindRule, clock: Clock, *, check: bool = True, trust_bearer: bool = False
    ) -> None:
        self._find_rule = find_rule
        self._clock = clock
        self._check = check
        self._trust_bearer = trust_bearer

    def require(self, request: Request, right: str, lacking: str = "") -> None:
        """Raise unless the request carries a token with this right on what its path is below.

        Clients sign anything from the host to the whole URL of the request.  `lacking` is what to
        say to whoever has the right to less.
        """
        path = path_of(f"sb://host{request.raw_path}")
        self._require(request.headers.get("authorization", ""), path, right, lacking)

    def require_beside(self, token: str, path: str, right: str) -> None:
        """As above, for a token that came in a header of its own and is about another entity."""
        self._require(token, path_of(f"sb://host/{path}"), right)

    def _require(self, token: str, path: str, right: str, lacking: str = "") -> None:
        if not self._check:
            return
        token = token.strip()
        if not token:
            raise Refused(errors.unauthorized, message="MissingToken: There is no token.")
        if _bearer.fullmatch(token):
            if self._trust_bearer:
                return
            raise Refused("InvalidIssuer", message="Tokens of this kind are not accepted.")
        if not token.startswith(prefix):
            raise Refused("MalformedToken", message="The token is not one that is known.")
        grant = verify(token, path, self._find_rule, self._clock.now())
        if not grant.allows(right, path):
            text = lacking or f"Unauthorized access. '{right}' claim is required."
            raise Refused(errors.unauthorized, message=text)
