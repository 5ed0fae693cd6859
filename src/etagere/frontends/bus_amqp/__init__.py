"""Service Bus over AMQP: links to the broker's senders and receivers, requests to its operations.

Names of annotations, properties, operations and conditions are those of Microsoft's "AMQP 1.0 in
Azure Service Bus and Event Hubs protocol guide" and "AMQP request-response operations".
"""
