"""Error codes of the Blob service (Azure: 'Blob service error codes')."""

from collections.abc import Mapping
from typing import Final

from etagere.frontends.common.errors import WireError

blob: Final[Mapping[str, WireError]] = {
    "AppendPositionConditionNotMet": WireError(
        412, "The append position condition specified was not met."
    ),
    "BlobAlreadyExists": WireError(409, "The specified blob already exists."),
    "BlobArchived": WireError(409, "This operation is not permitted on an archived blob."),
    "BlobBeingRehydrated": WireError(
        409, "This operation is not permitted because the blob is being rehydrated."
    ),
    "BlobDoesNotUseCustomerSpecifiedEncryption": WireError(
        409,
        "The blob is not encrypted with customer specified encryption, but one was provided in the request.",
    ),
    "BlobImmutableDueToLegalHold": WireError(
        409,
        "This operation is not permitted as the blob is immutable due to one or more legal holds.",
    ),
    "BlobImmutableDueToPolicy": WireError(
        409, "This operation is not permitted as the blob is immutable due to a policy."
    ),
    "BlobIsSealed": WireError(
        409, "The specified blob is sealed and its contents can't be modified."
    ),
    "BlobNotArchived": WireError(409, "The blob is not in the archive tier."),
    "BlobNotFound": WireError(404, "The specified blob does not exist."),
    "BlobOverwritten": WireError(
        409, "The blob has been recreated since the previous snapshot was taken."
    ),
    "BlobTierInadequateForContentLength": WireError(
        409, "Specified blob tier size limit cannot be less than content length."
    ),
    "BlobUsesCustomerSpecifiedEncryption": WireError(
        409,
        "The blob is encrypted with customer specified encryption, but it was not provided in the request.",
    ),
    "BlockCountExceedsLimit": WireError(
        409, "The committed block count cannot exceed the maximum limit of 50,000 blocks."
    ),
    "BlockListTooLong": WireError(400, "The block list may not contain more than 50,000 blocks."),
    "CannotChangeToLowerTier": WireError(
        409, "A higher blob tier has already been explicitly set."
    ),
    "CannotVerifyCopySource": WireError(
        500, "Could not verify the copy source within the specified time."
    ),
    "ContainerAlreadyExists": WireError(409, "The specified container already exists."),
    "ContainerBeingDeleted": WireError(
        409, "The specified container is being deleted. Try operation later."
    ),
    "ContainerDisabled": WireError(
        409, "The specified container has been disabled by the administrator."
    ),
    "ContainerNotFound": WireError(404, "The specified container does not exist."),
    "ContentLengthLargerThanTierLimit": WireError(
        409, "The blob's content length is larger than its tier limit."
    ),
    "ContainerProtectedFromDeletion": WireError(
        409,
        "The container is protected from deletion: it supports version-level immutability and is not empty.",
    ),
    "CopyAcrossAccountsNotSupported": WireError(
        400, "The copy source account and destination account must be the same."
    ),
    "CopyIdMismatch": WireError(
        409, "The specified copy ID did not match the copy ID for the pending copy operation."
    ),
    "DuplicateTagNames": WireError(400, "The tag names must be unique."),
    "EmptyTagName": WireError(400, "The name of one of the tag key-value pairs is empty."),
    "IncrementalCopyBlobMismatch": WireError(
        409,
        "The specified source blob is different than the copy source of the existing incremental copy blob.",
    ),
    "IncrementalCopyOfEarlierVersionSnapshotNotAllowed": WireError(
        409,
        "The specified snapshot is earlier than the last snapshot copied into the incremental copy blob.",
    ),
    "IncrementalCopySourceMustBeSnapshot": WireError(
        409, "The source for incremental copy request must be a snapshot."
    ),
    "InfiniteLeaseDurationRequired": WireError(
        412, "The lease ID matched, but the specified lease must be an infinite-duration lease."
    ),
    "InvalidBlobOrBlock": WireError(400, "The specified blob or block content is invalid."),
    "InvalidBlobTier": WireError(400, "The specified blob tier is invalid."),
    "InvalidBlobType": WireError(409, "The blob type is invalid for this operation."),
    "InvalidBlockId": WireError(
        400, "The specified block ID is invalid. The block ID must be Base64-encoded."
    ),
    "InvalidBlockList": WireError(400, "The specified block list is invalid."),
    "InvalidOperation": WireError(
        400, "The operation is not valid in this state or on this resource."
    ),
    "InvalidPageRange": WireError(416, "The page range specified is invalid."),
    "InvalidSourceBlobType": WireError(
        409, "The copy source blob type is invalid for this operation."
    ),
    "InvalidSourceBlobUrl": WireError(
        409, "The source URL for incremental copy request must be valid Azure Storage blob URL."
    ),
    "InvalidTag": WireError(
        400, "The tags specified are invalid. They contain characters that are not permitted."
    ),
    "InvalidVersionForPageBlobOperation": WireError(
        400, "All operations on page blobs require at least version 2009-09-19."
    ),
    "LeaseAlreadyBroken": WireError(409, "The lease has already been broken."),
    "LeaseAlreadyPresent": WireError(409, "There is already a lease present."),
    "LeaseIdMismatchWithBlobOperation": WireError(
        412, "The lease ID specified did not match the lease ID for the blob."
    ),
    "LeaseIdMismatchWithContainerOperation": WireError(
        412, "The lease ID specified did not match the lease ID for the container."
    ),
    "LeaseIdMismatchWithLeaseOperation": WireError(
        409, "The lease ID specified did not match the lease ID for the resource."
    ),
    "LeaseIdMissing": WireError(
        412,
        "There is currently a lease on the resource and no lease ID was specified in the request.",
    ),
    "LeaseIsBreakingAndCannotBeAcquired": WireError(
        409,
        "The lease ID matched, but the lease is currently in breaking state and cannot be acquired until it is broken.",
    ),
    "LeaseIsBreakingAndCannotBeChanged": WireError(
        409,
        "The lease ID matched, but the lease is currently in breaking state and cannot be changed.",
    ),
    "LeaseIsBrokenAndCannotBeRenewed": WireError(
        409, "The lease ID matched, but the lease has been broken explicitly and cannot be renewed."
    ),
    "LeaseLost": WireError(
        412, "A lease ID was specified, but the lease for the resource has expired."
    ),
    "LeaseNotPresentWithBlobOperation": WireError(412, "There is currently no lease on the blob."),
    "LeaseNotPresentWithContainerOperation": WireError(
        412, "There is currently no lease on the container."
    ),
    "LeaseNotPresentWithLeaseOperation": WireError(
        409, "There is currently no lease on the resource."
    ),
    "MaxBlobSizeConditionNotMet": WireError(
        412, "The max blob size condition specified was not met."
    ),
    "NoPendingCopyOperation": WireError(409, "There is currently no pending copy operation."),
    "OperationNotAllowedOnIncrementalCopyBlob": WireError(
        409, "The specified operation is not allowed on an incremental copy blob."
    ),
    "OperationNotAllowedOnRootBlob": WireError(
        409, "The specified operation is not allowed on the root blob."
    ),
    "PendingCopyOperation": WireError(409, "There is currently a pending copy operation."),
    "PreviousSnapshotCannotBeNewer": WireError(
        400,
        "The prevsnapshot query parameter value cannot be newer than the snapshot query parameter value.",
    ),
    "PreviousSnapshotNotFound": WireError(409, "The previous snapshot is not found."),
    "PreviousSnapshotOperationNotSupported": WireError(
        409, "Differential Get Page Ranges is not supported on the previous snapshot."
    ),
    "RequestForbiddenByContainerEncryptionPolicy": WireError(
        403,
        "The request is forbidden by the container's encryption policy: it must use the default encryption scope.",
    ),
    "SequenceNumberConditionNotMet": WireError(
        412, "The sequence number condition specified was not met."
    ),
    "SequenceNumberIncrementTooLarge": WireError(
        409,
        "The sequence number increment cannot be performed because it would result in overflow of the sequence number.",
    ),
    "SnapshotCountExceeded": WireError(
        409, "The snapshot count against this blob has been exceeded."
    ),
    "SnapshotOperationRateExceeded": WireError(
        409, "The rate of snapshot calls has been exceeded."
    ),
    "SnapshotsPresent": WireError(
        409, "This operation is not permitted because the blob has snapshots."
    ),
    "SourceConditionNotMet": WireError(
        412, "The source condition specified using HTTP conditional header(s) is not met."
    ),
    "SystemInUse": WireError(409, "This blob is in use by the system."),
    "TagsTooLarge": WireError(400, "The tags specified exceed the maximum permissible limit."),
    "WebContentNotFound": WireError(404, "The requested content does not exist."),
    "WebsiteNotEnabled": WireError(404, "Static website hosting is not enabled for the account."),
    "UnauthorizedBlobOverwrite": WireError(
        403, "This request is not authorized to perform blob overwrites."
    ),
}
