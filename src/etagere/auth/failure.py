"""How authentication and authorization say no.

Authentication failures carry `AuthenticationErrorDetail`, as the live service's do: what was wrong,
and for a signature the string that the server signed, so that a client can find the difference.
"""

import re
from typing import Final

from etagere.base.clock import Timestamp
from etagere.base.errors import Refused
from etagere.kernel.dates import format_http_date

_detail: Final = "AuthenticationErrorDetail"
_unshowable: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def authentication_failed(detail: str) -> Refused:
    return not_authorized("AuthenticationFailed", detail)


def malformed_credentials(detail: str) -> Refused:
    return not_authorized("InvalidAuthenticationInfo", detail)


def not_authorized(code: str, detail: str) -> Refused:
    """The code, and in the detail what was wanted and what was had."""
    return Refused(code, {_detail: showable(detail)})


def showable(text: str) -> str:
    """What a client sent, without the characters that no XML or JSON can carry back to it."""
    return text if text.isprintable() else _unshowable.sub("\ufffd", text)


def wrong_mac(signature: str, string_to_sign: str) -> Refused:
    return authentication_failed(
        f"The MAC signature found in the HTTP request '{signature}' is not the same as any "
        f"computed signature. Server used following string to sign: '{string_to_sign}'."
    )


def wrong_sas_signature(string_to_sign: str) -> Refused:
    return authentication_failed(
        f"Signature did not match. String to sign used was {string_to_sign}"
    )


def outside_window(start: Timestamp | None, expiry: Timestamp | None, now: Timestamp) -> Refused:
    begin = now if start is None else start
    if expiry is None:
        return authentication_failed(
            "Signature not valid in the specified time frame: "
            f"Start [{format_http_date(begin)}] - Current [{format_http_date(now)}]"
        )
    if expiry <= begin:
        return authentication_failed(
            f"Signed expiry time [{format_http_date(expiry)}] must be after signed start time "
            f"[{format_http_date(begin)}]"
        )
    return authentication_failed(
        "Signature not valid in the specified time frame: "
        f"Start [{format_http_date(begin)}] - Expiry [{format_http_date(expiry)}] - "
        f"Current [{format_http_date(now)}]"
    )


def unauthenticated(version: str, method: str, *, service: str, tenant: str = "common") -> Refused:
    """No credentials, and the resource is not public (Azure: 'Authorize with Microsoft Entra ID').

    From 2019-12-12 the answer says how to get credentials.  Before that, a private blob looks like
    a missing one; what other requests saw is not documented, and gets the general refusal.
    """
    if version >= "2019-12-12":
        return Refused(
            "NoAuthenticationInformation",
            headers={
                "WWW-Authenticate": "Bearer authorization_uri="
                f"https://login.microsoftonline.com/{tenant}/oauth2/authorize "
                "resource_id=https://storage.azure.com"
            },
        )
    if service == "b" and method in ("GET", "HEAD"):
        return Refused("ResourceNotFound")
    return authentication_failed("The request has no credentials and the resource is not public.")
