"""A work queue: jobs that fail are tried again, and those that fail too often are put aside.

    magnetar serve
    python examples/work_queue.py

Any number of workers may share the subscription; each job goes to one of them. A job that
fails is refused, and comes again a little later. After three more tries the client moves it to
a topic of dead letters, where a person can look at it, and the queue goes on.
"""

import json
import sys

import magnetar

URL = sys.argv[1] if sys.argv[1:] else "pulsar://127.0.0.1:6650"
JOBS = "jobs"
DEAD = "jobs-dead"
JOB_LIST: list[dict[str, object]] = [
    {"job": "resize", "width": 640},
    {"job": "resize", "width": "wide"},  # nobody can do this one
    {"job": "resize", "width": 1280},
]


def handle(job: dict[str, object]) -> None:
    if not isinstance(job["width"], int):
        raise ValueError(f"{job['width']!r} is no width")


def work(consumer: magnetar.Consumer) -> None:
    """Handles jobs until none came for a while."""
    while True:
        try:
            message = consumer.receive(timeout_millis=3000)
        except magnetar.Timeout:
            return
        job = json.loads(message.data())
        tried = message.redelivery_count()
        try:
            handle(job)
        except ValueError as error:
            print(f"try {tried + 1}: {error}")
            consumer.negative_acknowledge(message)
        else:
            print(f"done: {job['job']} to {job['width']}")
            consumer.acknowledge(message)


def main() -> None:
    with magnetar.Client(URL) as client:
        consumer = client.subscribe(
            JOBS,
            "workers",
            consumer_type=magnetar.ConsumerType.Shared,
            negative_ack_redelivery_delay_ms=100,
            dead_letter_policy=magnetar.ConsumerDeadLetterPolicy(
                max_redeliver_count=3,
                dead_letter_topic=DEAD,
                # Without a subscription there is nobody for whom letters would be kept.
                initial_subscription_name="people",
            ),
        )
        producer = client.create_producer(JOBS)
        for job in JOB_LIST:
            producer.send(json.dumps(job).encode())
        work(consumer)
        people = client.subscribe(DEAD, "people", consumer_type=magnetar.ConsumerType.Shared)
        letter = people.receive(timeout_millis=10_000)
        print(f"put aside: {letter.data().decode()}")
        people.acknowledge(letter)


if __name__ == "__main__":
    main()
