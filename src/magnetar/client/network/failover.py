"""Going over to another cluster when one cannot be reached, and back.

| at          | each time it looks                                                            |
|-------------|-------------------------------------------------------------------------------|
| the primary | after so many failures in a row, to the first secondary that can be reached   |
| a secondary | after so many successes of the primary in a row, back to it; else as above    |

That a cluster can be reached means that one of its hosts takes a connection.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from magnetar.client.option.logger import LOGGER
from magnetar.client.option.service_info import AutoClusterFailover, ServiceInfo
from magnetar.client.option.service_url import parse_service_url

__all__ = ["Failover", "can_reach"]


class Failover:
    """See the module. `switch` is told where to go; what it raises leaves everything as it is."""

    def __init__(
        self,
        policy: AutoClusterFailover,
        probe: Callable[[ServiceInfo], Awaitable[bool]],
        switch: Callable[[ServiceInfo], None],
        log: logging.Logger = LOGGER,
    ) -> None:
        self._policy = policy
        self._probe = probe
        self._switch = switch
        self._log = log
        self._current = policy.primary
        # In a row: of the current one, and of the primary while it is not that.
        self._failures = 0
        self._successes = 0

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._policy.check_interval_ms / 1000)
            try:
                await self.look()
            except Exception as error:
                self._log.warning("looking for a cluster: %s", error)

    async def look(self) -> None:
        """Probes, and switches if it is time to."""
        if self._current is not self._policy.primary and await self._primary_is_back():
            self._go_to(self._policy.primary)
            return
        if await self._probe(self._current):
            self._failures = 0
            return
        self._failures += 1
        if self._failures >= self._policy.failover_threshold:
            await self._find_another()

    async def _primary_is_back(self) -> bool:
        if not await self._probe(self._policy.primary):
            self._successes = 0
            return False
        self._successes += 1
        return self._successes >= self._policy.switch_back_threshold

    async def _find_another(self) -> None:
        for info in self._policy.secondary:
            if info is not self._current and await self._probe(info):
                self._go_to(info)
                return

    def _go_to(self, info: ServiceInfo) -> None:
        self._switch(info)
        self._log.warning(
            "from the cluster at %s to that at %s", self._current.service_url, info.service_url
        )
        self._current = info
        self._failures = 0
        self._successes = 0


async def can_reach(info: ServiceInfo, seconds: float) -> bool:
    """Returns whether one of the cluster's hosts takes a connection in time."""
    for host, port in parse_service_url(info.service_url).hosts:
        try:
            async with asyncio.timeout(seconds):
                _, writer = await asyncio.open_connection(host, port)
        except (OSError, TimeoutError):
            continue
        writer.close()
        return True
    return False
