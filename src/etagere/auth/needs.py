"""What each group of operations needs, as the documentation of account and service SAS lists it.

Azure: 'Create an account SAS', permissions by operation; 'Create a service SAS', permissions for a
blob, container, queue, table, file and share.
"""

from typing import Final

from etagere.auth.need import Need, PublicAccess

# The service itself ------------------------------------------------------------------------------

service_read: Final = Need(resource_types="s", any_of="r", secondary_ok=True)
service_write: Final = Need(resource_types="s", any_of="w")
containers_list: Final = Need(resource_types="s", any_of="l", secondary_ok=True)
tables_list: Final = Need(resource_types="c", any_of="l", secondary_ok=True)
account_information: Final = Need(service_any_of="", secondary_ok=True)
"""Any token that is valid, whatever it is for."""
batch: Final = Need(service_any_of="", secondary_ok=True)
"""The envelope; each request in it has its own need."""
user_delegation_key: Final = Need(bearer_only=True)

# Containers, queues, tables and shares -----------------------------------------------------------

container_create: Final = Need(resource_types="c", any_of="cw")
container_read: Final = Need(resource_types="c", any_of="r", secondary_ok=True)
container_read_public: Final = Need(
    resource_types="c", any_of="r", secondary_ok=True, public=PublicAccess.CONTAINER
)
"""Properties and metadata of a blob container."""
container_write: Final = Need(resource_types="c", any_of="w")
container_delete: Final = Need(resource_types="c", any_of="d")
container_lease: Final = Need(resource_types="c", any_of="w")
container_lease_break: Final = Need(resource_types="c", any_of="dw")
"""Since 2017-07-29; before, a break too is for `w` alone."""
policies: Final = Need(sas=False)
policies_read: Final = Need(sas=False, secondary_ok=True)
queue_metadata_read: Final = Need(
    resource_types="c", any_of="r", service_any_of="r", secondary_ok=True
)

# Blobs -------------------------------------------------------------------------------------------

blobs_list: Final = Need(
    resource_types="c",
    any_of="l",
    service_any_of="l",
    secondary_ok=True,
    public=PublicAccess.CONTAINER,
)
blob_read: Final = Need(
    resource_types="o",
    any_of="r",
    service_any_of="r",
    secondary_ok=True,
    public=PublicAccess.BLOB,
)
blob_create: Final = Need(resource_types="o", any_of="cw", service_any_of="cw")
"""Put Blob and copies: with `c` alone, only where there is no blob yet."""
blob_write: Final = Need(resource_types="o", any_of="w", service_any_of="w")
blob_append: Final = Need(resource_types="o", any_of="aw", service_any_of="aw")
blob_snapshot: Final = Need(resource_types="o", any_of="cw", service_any_of="cw")
blob_lease: Final = Need(resource_types="o", any_of="w", service_any_of="w")
blob_lease_break: Final = Need(resource_types="o", any_of="dw", service_any_of="dw")
blob_delete: Final = Need(resource_types="o", any_of="d", service_any_of="d")
blob_version_delete: Final = Need(resource_types="o", any_of="x", service_any_of="x")
blob_delete_permanently: Final = Need(resource_types="o", any_of="y", service_any_of="y")
blob_tags: Final = Need(resource_types="o", any_of="t", service_any_of="t")
blob_tags_read: Final = Need(resource_types="o", any_of="t", service_any_of="t", secondary_ok=True)
blobs_find: Final = Need(resource_types="oc", any_of="f", service_any_of="f", secondary_ok=True)
blob_immutability: Final = Need(resource_types="o", any_of="i", service_any_of="i")

# Messages ----------------------------------------------------------------------------------------

message_put: Final = Need(resource_types="o", any_of="a", service_any_of="a")
message_get: Final = Need(resource_types="o", any_of="p", service_any_of="p")
message_peek: Final = Need(resource_types="o", any_of="r", service_any_of="r", secondary_ok=True)
message_delete: Final = Need(resource_types="o", any_of="p", service_any_of="p")
message_update: Final = Need(resource_types="o", any_of="u", service_any_of="u")
messages_clear: Final = Need(resource_types="o", any_of="d")
"""A queue's own SAS has no letter for it."""

# Entities ----------------------------------------------------------------------------------------

entity_read: Final = Need(resource_types="o", any_of="r", service_any_of="r", secondary_ok=True)
entity_insert: Final = Need(resource_types="o", any_of="a", service_any_of="a")
entity_update: Final = Need(resource_types="o", any_of="u", service_any_of="u")
entity_delete: Final = Need(resource_types="o", any_of="d", service_any_of="d")
entity_upsert: Final = Need(resource_types="o", all_of="au", service_any_of="", service_all_of="au")

# Files -------------------------------------------------------------------------------------------

files_list: Final = Need(resource_types="c", any_of="l", service_any_of="l", secondary_ok=True)
file_create: Final = Need(resource_types="o", any_of="cw", service_any_of="cw")
"""Files and directories: with `c` alone, only where there is none yet."""
file_read: Final = Need(resource_types="o", any_of="r", service_any_of="r", secondary_ok=True)
file_write: Final = Need(resource_types="o", any_of="w", service_any_of="w")
"""Properties, metadata, ranges, copies and their abortion, handles, leases."""
file_delete: Final = Need(resource_types="o", any_of="d", service_any_of="d")
