"""The context of a Queue request, and what every handler reads from it first."""

from etagere.frontends.common.call import Call
from etagere.frontends.queue_rest.names import check_queue_name
from etagere.kv.contract import Partition
from etagere.services.queue.queues import Place, place
from etagere.services.queue.service import QueueService


class QueueCall(Call):
    __slots__ = ("queues",)

    queues: QueueService

    def place(self) -> Place:
        """The queue that the path names."""
        name = self.target.container
        check_queue_name(name)
        return place(self.account.name, name)

    @property
    def part(self) -> Partition:
        return self.place().part
