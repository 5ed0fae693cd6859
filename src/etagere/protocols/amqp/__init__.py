"""AMQP 1.0 for a server, sans-IO: bytes and a time go in, events and bytes come out.

`engine.Connection` is the way in; `decoding`, `encoding` and `sections` are of use on their own.
"""
