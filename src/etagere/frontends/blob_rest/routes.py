"""The operations of the Blob service, a row each.

The rows, of which those on blobs are in `blob_routes`, say what the documentation's tables say:
whether an ETag is returned, which conditional headers are taken, how a lease bears on the
operation, whether the ETag changes ('Managing concurrency in Blob storage').  Tests hold each row
against what the handlers do.
"""

from typing import Final

from etagere.auth import needs
from etagere.frontends.blob_rest import account, batch, containers, website
from etagere.frontends.blob_rest.blob_routes import blob_rows
from etagere.frontends.blob_rest.call import BlobCall
from etagere.frontends.common.operations import (
    Conditions,
    LeaseUse,
    Operation,
    OperationTable,
    Resource,
)

_read = ("GET", "HEAD")
_service = Resource.SERVICE
_container = Resource.CONTAINER
_blob = Resource.ITEM

_account_rows: Final[tuple[Operation[BlobCall], ...]] = (
    Operation(
        "GetBlobServiceProperties",
        ("GET",),
        _service,
        account.get_properties,
        needs.service_read,
        restype="service",
        comp="properties",
    ),
    Operation(
        "SetBlobServiceProperties",
        ("PUT",),
        _service,
        account.set_properties,
        needs.service_write,
        restype="service",
        comp="properties",
        writes=True,
    ),
    Operation(
        "GetBlobServiceStats",
        ("GET",),
        _service,
        account.get_stats,
        needs.service_read,
        restype="service",
        comp="stats",
        since="2013-08-15",
    ),
    Operation(
        "GetUserDelegationKey",
        ("POST",),
        _service,
        account.get_user_delegation_key,
        needs.user_delegation_key,
        restype="service",
        comp="userdelegationkey",
        since="2018-11-09",
    ),
    Operation(
        "ListContainers",
        ("GET",),
        _service,
        containers.list_containers,
        needs.containers_list,
        comp="list",
    ),
    *(
        Operation(
            "BlobBatch",
            ("POST",),
            resource,
            batch.batch,
            needs.batch,
            restype=restype,
            comp="batch",
            since=since,
            writes=True,
        )
        for resource, restype, since in (
            (_service, "", "2018-11-09"),
            (_container, "container", "2020-06-12"),
            # @azure/storage-blob takes an account's path, as emulators have it, for a container's.
            (_service, "container", "2020-06-12"),
        )
    ),
    *(
        Operation(
            "FindBlobsByTags",
            ("GET",),
            resource,
            account.find_blobs,
            needs.blobs_find,
            restype=restype,
            comp="blobs",
            since=since,
        )
        for resource, restype, since in (
            (_service, "", "2019-12-12"),
            (_container, "container", "2021-04-10"),
        )
    ),
    *(
        Operation(
            "GetAccountInformation",
            _read,
            resource,
            account.get_account_information,
            needs.account_information,
            restype="account",
            comp="properties",
            since="2018-03-28",
        )
        for resource in (_service, _container, _blob)
    ),
)

_website_rows: Final[tuple[Operation[BlobCall], ...]] = (
    Operation(
        "GetWebContent",
        _read,
        Resource.WEBSITE,
        website.get,
        needs.blob_read,
        since="",
        returns_etag=True,
        conditions=Conditions.READ,
    ),
)

_container_rows: Final[tuple[Operation[BlobCall], ...]] = (
    Operation(
        "CreateContainer",
        ("PUT",),
        _container,
        containers.create,
        needs.container_create,
        restype="container",
        writes=True,
        returns_etag=True,
        changes_etag=True,
    ),
    Operation(
        "GetContainerProperties",
        _read,
        _container,
        containers.get_properties,
        needs.container_read_public,
        restype="container",
        returns_etag=True,
        lease=LeaseUse.OPTIONAL,
    ),
    Operation(
        "GetContainerMetadata",
        _read,
        _container,
        containers.get_metadata,
        needs.container_read_public,
        restype="container",
        comp="metadata",
        returns_etag=True,
        lease=LeaseUse.OPTIONAL,
    ),
    Operation(
        "SetContainerMetadata",
        ("PUT",),
        _container,
        containers.set_metadata,
        needs.container_write,
        restype="container",
        comp="metadata",
        writes=True,
        returns_etag=True,
        conditions=Conditions.WRITE,
        lease=LeaseUse.OPTIONAL,
        changes_etag=True,
    ),
    Operation(
        "GetContainerAcl",
        _read,
        _container,
        containers.get_access,
        needs.policies_read,
        restype="container",
        comp="acl",
        returns_etag=True,
        lease=LeaseUse.OPTIONAL,
    ),
    Operation(
        "SetContainerAcl",
        ("PUT",),
        _container,
        containers.set_access,
        needs.policies,
        restype="container",
        comp="acl",
        writes=True,
        returns_etag=True,
        conditions=Conditions.WRITE,
        lease=LeaseUse.OPTIONAL,
        changes_etag=True,
    ),
    Operation(
        "DeleteContainer",
        ("DELETE",),
        _container,
        containers.delete,
        needs.container_delete,
        restype="container",
        writes=True,
        conditions=Conditions.WRITE,
        lease=LeaseUse.ENFORCED,
    ),
    Operation(
        "BreakContainerLease",
        ("PUT",),
        _container,
        containers.lease,
        needs.container_lease_break,
        restype="container",
        comp="lease",
        chosen_by=("x-ms-lease-action", "break"),
        since="2012-02-12",
        writes=True,
        returns_etag=True,
        conditions=Conditions.WRITE,
        lease=LeaseUse.OWN_RULES,
    ),
    Operation(
        "LeaseContainer",
        ("PUT",),
        _container,
        containers.lease,
        needs.container_lease,
        restype="container",
        comp="lease",
        since="2012-02-12",
        writes=True,
        returns_etag=True,
        conditions=Conditions.WRITE,
        lease=LeaseUse.OWN_RULES,
    ),
    Operation(
        "RestoreContainer",
        ("PUT",),
        _container,
        containers.restore,
        needs.container_create,
        restype="container",
        comp="undelete",
        since="2019-12-12",
        writes=True,
        changes_etag=True,
    ),
    Operation(
        "RenameContainer",
        ("PUT",),
        _container,
        containers.rename,
        needs.container_write,
        restype="container",
        comp="rename",
        since="2020-04-08",
        writes=True,
        lease=LeaseUse.ENFORCED,
        changes_etag=True,
    ),
    Operation(
        "ListBlobs",
        ("GET",),
        _container,
        containers.list_blobs,
        needs.blobs_list,
        restype="container",
        comp="list",
    ),
)

operations: Final[OperationTable[BlobCall]] = OperationTable(
    "blob",
    (
        *_account_rows,
        *_website_rows,
        *_container_rows,
        *blob_rows,
    ),
)
