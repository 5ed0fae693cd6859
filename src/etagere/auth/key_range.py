"""The rows of a table that a shared access signature reaches: `spk srk epk erk`."""

import msgspec


class KeyRange(msgspec.Struct, frozen=True):
    """Bounds are inclusive, and None where the signature sets none.

    A row key bounds only the rows of its own partition key: from (spk, srk) to (epk, erk) in the
    order of the table.
    """

    start_partition: str | None = None
    start_row: str | None = None
    end_partition: str | None = None
    end_row: str | None = None

    def covers(self, partition_key: str, row_key: str) -> bool:
        if self.start_partition is not None:
            if partition_key < self.start_partition:
                return False
            if (
                partition_key == self.start_partition
                and self.start_row is not None
                and row_key < self.start_row
            ):
                return False
        if self.end_partition is not None:
            if partition_key > self.end_partition:
                return False
            if (
                partition_key == self.end_partition
                and self.end_row is not None
                and row_key > self.end_row
            ):
                return False
        return True


whole_table = KeyRange()
