"""Continuation tokens: the position where the next page begins.

They have the live service's form, `1!length!base64` with `-` for `=`, and with `.` and `_` where
base64 has what a URL would have to escape.  A token says nothing but a position, so one that was
made up reaches no row that its sender could not reach with a filter.
"""

import base64
import binascii
import re
from typing import Final

from etagere.services.table.edm import invalid_input

partition_header: Final = "x-ms-continuation-NextPartitionKey"
row_header: Final = "x-ms-continuation-NextRowKey"
table_header: Final = "x-ms-continuation-NextTableName"

_form: Final = re.compile(r"1!([0-9]{1,6})!([A-Za-z0-9._-]*)", re.ASCII)
_to_url: Final = str.maketrans("+/=", "._-")
_from_url: Final = str.maketrans("._-", "+/=")


def encode(text: str) -> str:
    packed = base64.b64encode(text.encode()).decode().translate(_to_url)
    return f"1!{len(packed)}!{packed}"


def decode(token: str) -> str:
    found = _form.fullmatch(token)
    if found is None or int(found[1]) != len(found[2]):
        raise invalid_input("The continuation token is not one that this service made.")
    try:
        return base64.b64decode(found[2].translate(_from_url), validate=True).decode()
    except (binascii.Error, ValueError):
        raise invalid_input("The continuation token is not one that this service made.") from None
