"""The context of a Queue request, and what every handler reads from it first."""

from functools import lru_cache
from typing import Final

from etagere.frontends.common.call import Call
from etagere.frontends.queue_rest.names import check_queue_name
from etagere.kv.contract import Partition
from etagere.services.queue.queues import Place, place
from etagere.services.queue.service import QueueService

_names_remembered: Final = 4096


class QueueCall(Call):
    __slots__ = ("queues",)

    queues: QueueService

    def place(self) -> Place:
        """The queue that the path names."""
        return _named(self.account.name, self.target.container)

    @property
    def part(self) -> Partition:
        return self.place().part


@lru_cache(maxsize=_names_remembered)
def _named(account: str, name: str) -> Place:
    check_queue_name(name)
    return place(account, name)
