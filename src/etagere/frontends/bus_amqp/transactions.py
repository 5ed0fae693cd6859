"""Transactions of a connection: its coordinator links declare and discharge (AMQP part 4, 4.4)."""

from typing import Final

from etagere.base.errors import Refused
from etagere.frontends.bus_amqp import errors
from etagere.services.bus.broker import Broker
from etagere.services.bus.transactions import Transaction

transactions_max: Final = 1_000
"""Open at once on one connection."""


class Transactions:
    __slots__ = ("_broker", "_connection", "_open")

    def __init__(self, broker: Broker, connection: object) -> None:
        self._broker = broker
        self._connection = connection
        self._open: dict[bytes, Transaction] = {}

    def declare(self, *, cross_entity: bool) -> Transaction:
        if len(self._open) >= transactions_max:
            raise Refused(errors.not_allowed, message="The connection has too many transactions.")
        transaction = self._broker.begin_transaction(self._connection, cross_entity=cross_entity)
        self._open[transaction.id] = transaction
        return transaction

    def find(self, transaction_id: bytes) -> Transaction:
        if transaction_id not in self._open:
            raise Refused(errors.unknown_transaction, message="The transaction is not known.")
        return self._broker.find_transaction(self._connection, transaction_id)

    def take(self, transaction_id: bytes) -> Transaction:
        """To be ended, one way or the other."""
        transaction = self.find(transaction_id)
        del self._open[transaction_id]
        return transaction

    def roll_back(self, transaction_ids: set[bytes]) -> None:
        for transaction_id in transaction_ids:
            transaction = self._open.pop(transaction_id, None)
            if transaction is not None:
                transaction.rollback()
