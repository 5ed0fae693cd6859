"""`etagere check DIR`: a whole store verified while no server has it open."""

import sys
from pathlib import Path
from typing import Final

from etagere.app.configuration import Unusable
from etagere.kv.check import Checker, check_store
from etagere.kv.contract import StoreUnusable
from etagere.services.queue.check import QueueChecker

checkers: Final[tuple[Checker, ...]] = (QueueChecker(),)
"""What the services know of their own records."""


def check(directory: str) -> int:
    try:
        findings = check_store(Path(directory), checkers)
    except StoreUnusable as error:
        raise Unusable(f"{error}.") from error
    for finding in findings:
        sys.stdout.write(f"{finding.checker}: {finding.where}: {finding.problem}\n")
    if findings:
        sys.stderr.write(f"etagere: {directory} has {len(findings)} faults\n")
        return 1
    sys.stdout.write(f"{directory} is sound\n")
    return 0
