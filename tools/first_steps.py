"""What a newcomer does first, with what is installed: serve, send, receive, acknowledge.

    python tools/first_steps.py             with any build
    python tools/first_steps.py --compiled  fails unless it is the compiled one

Prints the message, whether the package is compiled, and what else the client has loaded: nothing
that is for a server, for the command line or for Spark. Needs nothing but the package.
"""

import subprocess
import sys
import sysconfig
from pathlib import Path

import magnetar

LATE = ("pyspark", "pyarrow", "starlette", "uvicorn", "typer", "rich", "click")
ROOMS = ("broker", "storage", "admin", "cli", "testing", "spark")


def main() -> int:
    command = [str(Path(sysconfig.get_path("scripts")) / "magnetar"), "serve", "--memory"]
    with subprocess.Popen(
        [*command, "--port", "0", "--http-port", "0"], stdout=subprocess.PIPE, text=True
    ) as broker:
        assert broker.stdout is not None
        url = broker.stdout.readline().split()[1]
        with magnetar.Client(url) as client:
            consumer = client.subscribe("orders", "billing")
            client.create_producer("orders").send(b"hello")
            message = consumer.receive(timeout_millis=20000)
            consumer.acknowledge(message)
        broker.terminate()
    names = (*LATE, *(f"magnetar.{room}" for room in ROOMS))
    loaded = [name for name in names if name in sys.modules]
    print(message.data().decode(), magnetar.COMPILED, loaded)
    return 1 if loaded or ("--compiled" in sys.argv and not magnetar.COMPILED) else 0


if __name__ == "__main__":
    sys.exit(main())
