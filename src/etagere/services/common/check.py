"""What must hold of what all services keep alike; `etagere check` asks for it."""

from typing import Final

from etagere.kv.check import CheckTx, Finding
from etagere.kv.layers.records import DamagedRecord
from etagere.kv.layers.rows import every_row
from etagere.kv.tuples import unpack
from etagere.services.common import service_properties


class PropertiesChecker:
    """A `Checker` for the properties of every service of every account."""

    name: Final = "properties"

    async def check(self, tx: CheckTx) -> list[Finding]:
        findings: list[Finding] = []
        for part in list(tx.partitions()):
            match unpack(part):
                case (self.name, str(service), str(account)):
                    where = f"{service} of {account}"
                case _:
                    continue
            async for key, raw in every_row(tx, part, b"", b"\xff"):
                if not service_properties.is_key(key):
                    findings.append(Finding(self.name, where, f"unknown row {key.hex()}"))
                    continue
                try:
                    service_properties.codec.decode(raw)
                except DamagedRecord as damage:
                    findings.append(Finding(self.name, where, f"does not decode: {damage}"))
        return findings
