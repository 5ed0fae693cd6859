"""Errors as data: each code's status and message, and how a service spells one on the wire.

Services keep the codes that are theirs in their own `errors` module; these are the ones that
Blob, Queue, Table and Files share (Azure: 'Common REST API error codes').
"""

from collections.abc import Mapping
from typing import Final, NamedTuple


class WireError(NamedTuple):
    status: int
    message: str


common: Final[Mapping[str, WireError]] = {
    "AccountIsDisabled": WireError(403, "The specified account is disabled."),
    "AuthenticationFailed": WireError(
        403,
        "Server failed to authenticate the request. Make sure the value of Authorization header "
        "is formed correctly including the signature.",
    ),
    "AuthorizationFailure": WireError(
        403, "This request is not authorized to perform this operation."
    ),
    "AuthorizationPermissionMismatch": WireError(
        403, "This request is not authorized to perform this operation using this permission."
    ),
    "AuthorizationProtocolMismatch": WireError(
        403, "This request is not authorized to perform this operation using this protocol."
    ),
    "AuthorizationResourceTypeMismatch": WireError(
        403, "This request is not authorized to perform this operation using this resource type."
    ),
    "AuthorizationServiceMismatch": WireError(
        403, "This request is not authorized to perform this operation using this service."
    ),
    "AuthorizationSourceIPMismatch": WireError(
        403, "This request is not authorized to perform this operation using this source IP."
    ),
    "BothCrc64AndMd5HeaderPresent": WireError(
        400, "Both x-ms-content-crc64 header and Content-MD5 header are present."
    ),
    "ConditionHeadersNotSupported": WireError(400, "Condition headers are not supported."),
    "ConditionNotMet": WireError(
        412, "The condition specified using HTTP conditional header(s) is not met."
    ),
    "CorsPreflightFailure": WireError(
        403,
        "CORS not enabled or no matching rule found for this request.",
    ),
    "Crc64Mismatch": WireError(
        400,
        "The CRC64 value specified in the request did not match with the CRC64 value calculated "
        "by the server.",
    ),
    "DirectorySasNotSupportedVersion": WireError(
        409, "The shared access signature of a directory needs a later signed version."
    ),
    "EmptyMetadataKey": WireError(400, "The key for one of the metadata key-value pairs is empty."),
    "FeatureVersionMismatch": WireError(
        409, "The operation for the resource needs a later version of the service."
    ),
    "InsufficientAccountPermissions": WireError(
        403, "The account being accessed does not have sufficient permissions."
    ),
    "InternalError": WireError(
        500, "The server encountered an internal error. Please retry the request."
    ),
    "InvalidAuthenticationInfo": WireError(
        400, "Authentication information is not given in the correct format."
    ),
    "InvalidHeaderValue": WireError(
        400, "The value for one of the HTTP headers is not in the correct format."
    ),
    "InvalidHttpVerb": WireError(400, "The HTTP verb specified is invalid."),
    "InvalidInput": WireError(400, "One of the request inputs is not valid."),
    "InvalidMd5": WireError(
        400,
        "The MD5 value specified in the request is invalid. MD5 value must be 128 bits and "
        "base64 encoded.",
    ),
    "InvalidMetadata": WireError(
        400, "The metadata specified is invalid. It has characters that are not permitted."
    ),
    "InvalidQueryParameterValue": WireError(
        400, "Value for one of the query parameters specified in the request URI is invalid."
    ),
    "InvalidRange": WireError(
        416, "The range specified is invalid for the current size of the resource."
    ),
    "InvalidResourceName": WireError(
        400, "The specified resource name contains invalid characters."
    ),
    "InvalidUri": WireError(
        400, "The requested URI does not represent any resource on the server."
    ),
    "InvalidXmlDocument": WireError(400, "XML specified is not syntactically valid."),
    "InvalidXmlNodeValue": WireError(
        400, "The value for one of the XML nodes is not in the correct format."
    ),
    "KeyBasedAuthenticationNotPermitted": WireError(
        403, "Key based authentication is not permitted on this storage account."
    ),
    "Md5Mismatch": WireError(
        400,
        "The MD5 value specified in the request did not match with the MD5 value calculated by "
        "the server.",
    ),
    "MetadataTooLarge": WireError(
        400, "The metadata specified exceeds the maximum allowed limit (8KB)."
    ),
    "MissingContentLengthHeader": WireError(411, "Content-Length HTTP header is missing."),
    "MissingRequiredHeader": WireError(
        400, "An HTTP header that's mandatory for this request is not specified."
    ),
    "MissingRequiredQueryParameter": WireError(
        400, "A query parameter that's mandatory for this request is not specified."
    ),
    "MissingRequiredXmlNode": WireError(400, "A required XML node is missing."),
    "MultipleConditionHeadersNotSupported": WireError(
        400, "Multiple condition headers are not supported."
    ),
    "NoAuthenticationInformation": WireError(
        401,
        "Server failed to authenticate the request. Please refer to the information in the "
        "www-authenticate header.",
    ),
    "NotImplemented": WireError(
        501, "The requested operation is not implemented on the specified resource."
    ),
    "OperationTimedOut": WireError(
        500, "The operation could not be completed within the specified time."
    ),
    "OutOfRangeInput": WireError(400, "One of the request inputs is out of range."),
    "OutOfRangeQueryParameterValue": WireError(
        400,
        "One of the query parameters specified in the request URI is outside the permissible "
        "range.",
    ),
    "PublicAccessNotPermitted": WireError(
        409, "Public access is not permitted on this storage account."
    ),
    "QueryParameterSasMandatory": WireError(
        403, "A query parameter that's mandatory for a shared access signature is not specified."
    ),
    "QueryParameterSddInvalid": WireError(
        403, "The depth of the signed directory (sdd) is not valid."
    ),
    "RequestBodyTooLarge": WireError(
        413, "The request body is too large and exceeds the maximum permissible limit."
    ),
    "RequestUrlFailedToParse": WireError(400, "The url in the request could not be parsed."),
    "ResourceAlreadyExists": WireError(409, "The specified resource already exists."),
    "ResourceNotFound": WireError(404, "The specified resource does not exist."),
    "ResourceTypeMismatch": WireError(
        409, "The specified resource type does not match the type of the existing resource."
    ),
    "ServerBusy": WireError(503, "The server is busy."),
    "UnsatisfiableCondition": WireError(
        400, "The request includes an unsatisfiable condition for this operation."
    ),
    "UnsupportedHeader": WireError(
        400, "One of the HTTP headers specified in the request is not supported."
    ),
    "UnsupportedHttpVerb": WireError(405, "The resource doesn't support specified Http Verb."),
    "UnsupportedQueryParameter": WireError(
        400, "One of the query parameters specified in the request URI is not supported."
    ),
    "UnsupportedXmlNode": WireError(
        400, "One of the XML nodes specified in the request body is not supported."
    ),
    # Not one of Azure's: their disks do not fill.  507 is what WebDAV calls it, and SDKs retry it
    # as they do any 5xx.
    "InsufficientStorage": WireError(
        507, "There is no room left on the server's disk. Nothing was changed."
    ),
}
