"""An error as XML (Azure: 'Status and error codes')."""

from etagere.base.errors import Refused
from etagere.frontends.common import xml
from etagere.frontends.common.errors import WireError


def xml_error(refused: Refused, error: WireError) -> bytes:
    """`Error` with its code, its message, and whatever else the code comes with."""
    details = "".join(xml.element(name, _shown(text)) for name, text in refused.details.items())
    return (
        f"{xml.declaration}<Error>{xml.element('Code', refused.code)}"
        f"{xml.element('Message', error.message)}{details}</Error>"
    ).encode()


def _shown(text: str) -> str:
    """What a client sent may hold characters that XML cannot carry."""
    if xml.is_representable(text):
        return text
    return "".join(char if xml.is_representable(char) else "\ufffd" for char in text)
