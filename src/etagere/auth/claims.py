"""What a bearer token says about its bearer."""

import msgspec


class Claims(msgspec.Struct, frozen=True):
    """The claims that are looked at; those that a token lacks are None.

    Times are seconds since 1970, as JSON numbers (RFC 7519, NumericDate).
    """

    iss: str | None = None
    aud: str | list[str] | None = None
    exp: int | float | None = None
    nbf: int | float | None = None
    iat: int | float | None = None
    oid: str | None = None
    """The object id of the user or application."""
    tid: str | None = None
    """Its tenant."""
    sub: str | None = None
    appid: str | None = None
    upn: str | None = None

    @property
    def audiences(self) -> tuple[str, ...]:
        match self.aud:
            case None:
                return ()
            case str():
                return (self.aud,)
            case _:
                return tuple(self.aud)
