"""CloudEvents in the properties of messages, in the binary mode.

event = CloudEvent(id="7", source="/shop", type="org.example.order.placed")
producer.send(data, properties=event.properties())

event = CloudEvent.from_properties(message.properties())
"""

from magnetar.client.schema.cloud_event import CloudEvent

__all__ = ["CloudEvent"]
