"""No ETag is given out twice: not within one tick, not to a resource that was deleted and made
again, not after a restart with the clock set back."""

from pathlib import Path

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import ResourceModifiedError
from azure.data.tables import TableServiceClient, UpdateMode
from azure.storage.blob import BlobServiceClient

from etagere.services.common.accounts import development_key, development_name
from etagere.testing import ServerProcess


def connection_string(server: ServerProcess) -> str:
    endpoints = "".join(
        f"{name.capitalize()}Endpoint={server.urls[name]};" for name in ("blob", "table")
    )
    return f"AccountName={development_name};AccountKey={development_key};{endpoints}"


def of_blobs(string: str) -> list[str]:
    """In the order in which they were made."""
    with BlobServiceClient.from_connection_string(string) as service:
        container = service.get_container_client("container")
        etags = [container.create_container()["etag"]]
        etags.append(container.set_container_metadata({"a": "b"})["etag"])
        for _ in range(3):
            blob = container.get_blob_client("blob")
            etags.append(blob.upload_blob(b"same")["etag"])
            etags.append(blob.set_blob_metadata({"a": "b"})["etag"])
            etags.append(blob.upload_blob(b"same", overwrite=True)["etag"])
            with pytest.raises(ResourceModifiedError):
                blob.delete_blob(etag=etags[-2], match_condition=MatchConditions.IfNotModified)
            blob.delete_blob(etag=etags[-1], match_condition=MatchConditions.IfNotModified)
        container.delete_container()
        return etags


def of_entities(string: str) -> list[str]:
    entity = {"PartitionKey": "p", "RowKey": "r", "a": 1}
    etags = []
    with TableServiceClient.from_connection_string(string) as service:
        for _ in range(2):
            with service.create_table("entities") as table:
                for _ in range(3):
                    etags.append(table.create_entity(entity)["etag"])
                    etags.append(table.update_entity(entity, UpdateMode.REPLACE)["etag"])
                    etags.append(table.update_entity(entity, UpdateMode.MERGE)["etag"])
                    table.delete_entity(entity)
            service.delete_table("entities")
    return etags


@pytest.mark.parametrize("made_by", [of_blobs, of_entities])
def test_none_is_ever_used_again(tmp_path: Path, made_by) -> None:
    etags: list[str] = []
    # Time stands still, and before the third start it is set back by a day.
    for when in ("2030-01-02T00:00:00Z", "2030-01-02T00:00:00Z", "2030-01-01T00:00:00Z"):
        with ServerProcess(["--data", str(tmp_path / "data"), "--clock", "virtual"]) as server:
            server.admin.ask("POST", "/clock", {"frozen": True})
            server.admin.ask("POST", "/clock/set", {"now": when})
            etags += made_by(connection_string(server))
    assert len(etags) >= 33
    assert etags == sorted(set(etags))
