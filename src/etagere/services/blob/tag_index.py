"""The rows by which blobs are found by their tags; whoever changes tags keeps them right."""

from etagere.kv.contract import Tx
from etagere.services.blob import keys
from etagere.services.blob.content import Home


def remember(tx: Tx, home: Home, name: str, moment: int, tags: dict[str, str]) -> None:
    """Index the tags of the current blob (`keys.current_moment`) or of a version."""
    for key, value in tags.items():
        tx.put(home.part, keys.tag(home.generation, key, value, name, moment), b"")


def forget(tx: Tx, home: Home, name: str, moment: int, tags: dict[str, str]) -> None:
    for key, value in tags.items():
        tx.delete(home.part, keys.tag(home.generation, key, value, name, moment))
