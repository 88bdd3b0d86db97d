"""Jobs for later, one of which is called off before its time.

    magnetar serve
    python examples/scheduled_jobs.py

A delayed message waits in the broker until its time comes, through restarts too. To cancel it,
its id is skipped on the subscription (PIP-423): that one message, and nothing else.
"""

import sys
from datetime import timedelta

import magnetar
from magnetar.rest.admin_client import AdminClient
from magnetar.rest.path import subscription_path

URL = sys.argv[1] if sys.argv[1:] else "pulsar://127.0.0.1:6650"
REST = sys.argv[2] if sys.argv[2:] else "http://127.0.0.1:8080"
TOPIC, RUNNER = "scheduled", "runner"


def cancel(id: magnetar.MessageId) -> None:
    """Skips a message; when this returns it is durable. Raises AdminError."""
    with AdminClient(REST) as admin:
        admin.post(subscription_path(TOPIC, RUNNER, "skipByMessageIds"), [id.to_base64()])


def main() -> None:
    with magnetar.Client(URL) as client:
        # Delays count on Shared and Key_Shared subscriptions.
        consumer = client.subscribe(TOPIC, RUNNER, consumer_type=magnetar.ConsumerType.Shared)
        producer = client.create_producer(TOPIC)
        soon = timedelta(seconds=2)
        jobs = {
            job: producer.send(job.encode(), deliver_after=soon)
            for job in ("send the invoice", "remind of the invoice", "close the books")
        }
        producer.send(b"greet")
        # The invoice was paid, so nobody is to be reminded of it.
        cancel(jobs["remind of the invoice"])
        print("cancelled: remind of the invoice")
        for _ in range(3):
            message = consumer.receive(timeout_millis=30_000)
            print(f"run: {message.data().decode()}")
            consumer.acknowledge(message)
        try:
            consumer.receive(timeout_millis=1500)
        except magnetar.Timeout:
            print("nothing else came")


if __name__ == "__main__":
    main()
