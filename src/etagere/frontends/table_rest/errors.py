"""The Table service's error codes, and how it spells an error.

Azure: 'Table service error codes'.  Data operations answer in JSON; those whose bodies are XML
(access policies, service properties and statistics) in XML.
"""

from typing import Final

import msgspec

from etagere.frontends.common.errors import WireError
from etagere.frontends.common.xml import declaration, escape

json_error_namespace: Final = "http://schemas.microsoft.com/ado/2007/08/dataservices/metadata"

table: Final[dict[str, WireError]] = {
    "AtomFormatNotSupported": WireError(415, "Atom format is not supported."),
    "CommandsInBatchActOnDifferentPartitions": WireError(
        400, "All commands in a batch must operate on same entity group."
    ),
    "DuplicatePropertiesSpecified": WireError(
        400, "A specified property is specified more than one time."
    ),
    "EntityAlreadyExists": WireError(409, "The specified entity already exists."),
    "EntityTooLarge": WireError(400, "The entity is larger than the maximum allowed size (1MB)."),
    "InvalidDuplicateRow": WireError(
        400,
        "The batch request contains multiple changes with same row key. An entity can appear "
        "only once in a batch request.",
    ),
    "JsonFormatNotSupported": WireError(415, "JSON format is not supported."),
    "MediaTypeNotSupported": WireError(415, "None of the provided media types are supported"),
    "MethodNotAllowed": WireError(
        405, "The requested method is not allowed on the specified resource."
    ),
    "PropertiesNeedValue": WireError(
        400, "The values are not specified for all properties in the entity."
    ),
    "PropertyNameInvalid": WireError(400, "The property name is invalid."),
    "PropertyNameTooLong": WireError(
        400, "The property name exceeds the maximum allowed length (255)."
    ),
    "PropertyValueTooLarge": WireError(
        400,
        "The property value exceeds the maximum allowed size (64KB). If the property value is a "
        "string, it is UTF-16 encoded and the maximum number of characters should be 32K or less.",
    ),
    "TableAlreadyExists": WireError(409, "The table specified already exists."),
    "TableNotFound": WireError(404, "The table specified does not exist."),
    "TooManyProperties": WireError(
        400,
        "The entity contains more properties than allowed. Each entity can include up to 252 "
        "properties to store data. Each entity also has 3 system properties.",
    ),
    "UpdateConditionNotSatisfied": WireError(
        412, "The update condition specified in the request was not satisfied."
    ),
    "XMethodIncorrectCount": WireError(400, "More than one X-HTTP-Method is specified."),
    "XMethodIncorrectValue": WireError(400, "The specified X-HTTP-Method is invalid."),
    "XMethodNotUsingPost": WireError(
        400, "The request uses X-HTTP-Method with an HTTP verb other than POST."
    ),
}


def json_body(code: str, message: str, index: str | None = None) -> bytes:
    """`{"odata.error": ...}`; in a batch the message begins with the operation's index."""
    text = message if index is None else f"{index}:{message}"
    return msgspec.json.encode(
        {"odata.error": {"code": code, "message": {"lang": "en-US", "value": text}}}
    )


def xml_body(code: str, message: str) -> bytes:
    return (
        f'{declaration}<m:error xmlns:m="{json_error_namespace}"><m:code>{escape(code)}</m:code>'
        f'<m:message xml:lang="en-US">{escape(message)}</m:message></m:error>'
    ).encode()
