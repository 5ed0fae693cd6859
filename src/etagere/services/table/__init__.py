"""Tables: entities by (table, partition key, row key), and what may be asked of them."""
