"""`etagere check DIR`: a whole store verified while no server has it open.

The pages, the rows, and what the services know of their records; then every extent that a record
refers to, byte by byte.
"""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from etagere.app.configuration import Unusable
from etagere.app.foundation import extents_directory
from etagere.extents.check import check as check_extents
from etagere.extents.local import LocalExtents
from etagere.kv.check import Checker, CheckTx, Finding, check_store
from etagere.kv.contract import StoreUnusable
from etagere.kv.engines.directory_lock import DirectoryLock
from etagere.kv.engines.lmdb import LmdbEngine
from etagere.kv.tuples import Item, unpack
from etagere.servers.real import RealClock
from etagere.services.blob.check import Referrers, check_account
from etagere.services.bus.check import BusChecker
from etagere.services.bus.keys import has_own_keys
from etagere.services.common.check import PropertiesChecker
from etagere.services.queue.check import QueueChecker
from etagere.services.table.check import TableChecker


class BlobChecker:
    """A `Checker` for the rows of all accounts' containers."""

    name: Final = "blob"

    def __init__(self) -> None:
        self.accounts: list[str] = []
        """Found by `check`: whoever has a container, or had one that is not swept away yet."""

    async def check(self, tx: CheckTx) -> list[Finding]:
        self.accounts = list(_accounts(tx, self.name))
        return [
            Finding(self.name, account, problem)
            for account in self.accounts
            for problem in await check_account(tx, account)
        ]


def _accounts(tx: CheckTx, service: str) -> Iterator[str]:
    for part in list(tx.partitions()):
        match unpack(part):
            case (str(found), str(account)) if found == service:
                yield account
            case _:
                pass


def _has_tuple_keys(partition: tuple[Item, ...]) -> bool:
    return not has_own_keys(partition)


def check(directory: str) -> int:
    faults, orphans = faults_of(Path(directory))
    if orphans:
        sys.stdout.write(f"extents: {orphans} nobody needs; a server removes them\n")
    for line in faults:
        sys.stdout.write(line + "\n")
    if faults:
        count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
        sys.stderr.write(f"etagere: {directory} has {count}\n")
        return 1
    sys.stdout.write(f"{directory} is sound\n")
    return 0


def faults_of(path: Path) -> tuple[list[str], int]:
    """What is wrong, a line each, and how many extents there are that nobody refers to."""
    blobs = BlobChecker()
    checkers: list[Checker] = [
        blobs,
        QueueChecker(),
        TableChecker(),
        BusChecker(),
        PropertiesChecker(),
    ]
    try:
        findings = check_store(path, checkers, tuple_keys=_has_tuple_keys)
        if findings:
            return [f"{found.checker}: {found.where}: {found.problem}" for found in findings], 0
        with DirectoryLock(path):
            return asyncio.run(_check_extents(path, blobs.accounts))
    except StoreUnusable as error:
        raise Unusable(f"{error}.") from error


async def _check_extents(path: Path, accounts: list[str]) -> tuple[list[str], int]:
    engine = LmdbEngine.open(path, clock=RealClock())
    extents = LocalExtents(path / extents_directory)
    faults, orphans = [], 0
    try:
        async for found in check_extents(engine, extents, Referrers(engine, accounts)):
            if found.is_harmless:
                orphans += 1
            else:
                faults.append(f"extents: {found.extent_id.hex()}: {found.fault.value}")
    except Exception as error:  # noqa: BLE001 - whatever cannot be followed is damage
        faults.append(f"extents: a record: cannot be checked: {error!r}")
    finally:
        await engine.close()
        await extents.close()
    return faults, orphans
