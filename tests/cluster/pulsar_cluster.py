"""A real cluster of Apache Pulsar on loopback, with each member a JVM that can be killed.

    with PulsarCluster() as cluster:
        client = pulsar.Client(cluster.url)
        cluster["broker1"].kill()       # kill -9
        cluster.restart("broker1")      # with the same data, on the same port
        cluster.stop("bookie2")

The members are `zk`, `bookie1` ..., `broker1` ..., and if asked for `proxy`. Heaps are small: all
of it takes 1.4 GB. Bookies sync their journals before they answer, as a production cluster does.

What it takes to run one, found by trying: bookies want the metadata store's address without a
path; loopback has to be allowed to them and named as their interface; a broker that was killed
owns its topics until its session with the metadata store runs out, so sessions are short here.
"""

import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final

from apache.harness import jvm, require_artifacts
from cluster.member import Member, answers, listens
from support.ports import free_ports
from support.requirement import need

SETUP_S = 120.0
# A broker or bookie that is dead is known to be so after this.
SESSION_MS: Final = 10_000

ZK_MEMORY: Final = ("-Xms64m", "-Xmx128m", "-XX:+UseSerialGC")
BOOKIE_MEMORY: Final = ("-Xms64m", "-Xmx256m", "-XX:MaxDirectMemorySize=256m", "-XX:+UseSerialGC")
BROKER_MEMORY: Final = ("-Xms128m", "-Xmx512m", "-XX:MaxDirectMemorySize=512m", "-XX:+UseSerialGC")
PROXY_MEMORY: Final = ("-Xms64m", "-Xmx256m", "-XX:MaxDirectMemorySize=256m", "-XX:+UseSerialGC")

METADATA = "org.apache.pulsar.PulsarClusterMetadataSetup"
ZK = "org.apache.zookeeper.server.ZooKeeperServerMain"
BOOKIE = "org.apache.bookkeeper.server.Main"
BROKER = "org.apache.pulsar.PulsarBrokerStarter"
PROXY = "org.apache.pulsar.proxy.server.ProxyServiceStarter"

_DRIVERS: Final = "org.apache.pulsar.metadata.bookkeeper.PulsarMetadata"
_FLAGS: Final = (
    *("--add-opens", "java.management/sun.management=ALL-UNNAMED"),
    *("--add-opens", "jdk.management/com.sun.management.internal=ALL-UNNAMED"),
    "-XX:+ExitOnOutOfMemoryError",
    "-Dlog4j2.is.webapp=false",
    "-Dzookeeper.admin.enableServer=false",
    f"-Dbookkeeper.metadata.bookie.drivers={_DRIVERS}BookieDriver",
    f"-Dbookkeeper.metadata.client.drivers={_DRIVERS}ClientDriver",
)


def require_cluster() -> None:
    """Goes on if a cluster is wanted and can be had here, else skips or fails as `need` does."""
    wanted = (
        os.environ.get("MAGNETAR_CLUSTER")
        or os.environ.get("MAGNETAR_APACHE_TARGET") == "cluster"
        or "cluster" in os.environ.get("MAGNETAR_REQUIRE", "").split()
    )
    need("cluster", bool(wanted), "MAGNETAR_CLUSTER=1 starts one (1.4 GB, half a minute)")
    require_artifacts()


class PulsarCluster:
    """See the module. `settings` are further lines of each broker's configuration."""

    def __init__(
        self,
        *,
        bookies: int = 3,
        brokers: int = 2,
        proxy: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        ports = free_ports(1 + bookies + 2 * brokers + 2)
        self._zk_port = ports.pop()
        self._proxy_ports = (ports.pop(), ports.pop())
        self._bookie_ports = [ports.pop() for _ in range(bookies)]
        self._broker_ports = [(ports.pop(), ports.pop()) for _ in range(brokers)]
        self._settings = dict(settings or {})
        self._has_proxy = proxy
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self.members: dict[str, Member] = {}

    # ---- Where it is ---------------------------------------------------------

    @property
    def url(self) -> str:
        """All brokers, as a client is told of a cluster."""
        return "pulsar://" + ",".join(f"127.0.0.1:{port}" for port, _ in self._broker_ports)

    @property
    def http_urls(self) -> list[str]:
        """Admin REST of each broker."""
        return [f"http://127.0.0.1:{port}" for _, port in self._broker_ports]

    @property
    def http_url(self) -> str:
        """Admin REST of the first broker."""
        return self.http_urls[0]

    @property
    def proxy_url(self) -> str:
        return f"pulsar://127.0.0.1:{self._proxy_ports[0]}"

    @property
    def proxy_http_url(self) -> str:
        return f"http://127.0.0.1:{self._proxy_ports[1]}"

    # ---- Its members ---------------------------------------------------------

    def __getitem__(self, name: str) -> Member:
        return self.members[name]

    @property
    def brokers(self) -> list[str]:
        return [name for name in self.members if name.startswith("broker")]

    @property
    def bookies(self) -> list[str]:
        return [name for name in self.members if name.startswith("bookie")]

    def owner(self, http_url: str) -> str:
        """The member whose admin REST this is."""
        return f"broker{self.http_urls.index(http_url) + 1}"

    def kill(self, name: str) -> None:
        """As kill -9 does."""
        self.members[name].kill()

    def stop(self, name: str) -> None:
        self.members[name].stop()

    def restart(self, name: str) -> None:
        """Starts a member that is down, and returns when it is ready."""
        self.members[name].start()
        self.members[name].wait()

    def restore(self) -> None:
        """Starts every member that is down."""
        down = [member for member in self.members.values() if not member.alive]
        for member in down:
            member.start()
        for member in down:
            member.wait()

    # ---- Beginning and end ---------------------------------------------------

    def __enter__(self) -> "PulsarCluster":
        self._scratch = tempfile.TemporaryDirectory(
            prefix="pulsar-cluster-", ignore_cleanup_errors=True
        )
        folder = Path(self._scratch.name)
        try:
            self._make_members(folder)
            self._begin("zk")
            self._set_up(folder)
            self._begin(*self.bookies)
            self._begin(*self.brokers)
            if self._has_proxy:
                self._begin("proxy")
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def _begin(self, *names: str) -> None:
        for name in names:
            self.members[name].start()
        for name in names:
            self.members[name].wait()

    def _close(self) -> None:
        # The data goes away too, so nobody has to end in order.
        for member in self.members.values():
            if member.alive:
                member.kill()
        if self._scratch is not None:
            self._scratch.cleanup()

    # ---- Configuration -------------------------------------------------------

    @property
    def _store(self) -> str:
        return f"zk:127.0.0.1:{self._zk_port}"

    def _set_up(self, folder: Path) -> None:
        """Writes what a new cluster has in its metadata store; a JVM that ends."""
        broker, http = self._broker_ports[0] if self._broker_ports else (0, 0)
        command = [*jvm("server", (*ZK_MEMORY, "-Xmx256m"), "warn"), *_FLAGS, METADATA]
        command += ["--cluster", "local", "--metadata-store", self._store]
        command += ["--configuration-metadata-store", self._store]
        command += ["--web-service-url", f"http://127.0.0.1:{http}"]
        command += ["--broker-service-url", f"pulsar://127.0.0.1:{broker}"]
        ran = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=SETUP_S, check=False
        )
        assert ran.returncode == 0, f"no cluster was set up:\n{ran.stdout}{ran.stderr}"

    def _make_members(self, folder: Path) -> None:
        self._add(folder, "zk", "server", ZK_MEMORY, ZK, [], self._zk_settings(folder))
        for number, port in enumerate(self._bookie_ports, 1):
            name = f"bookie{number}"
            settings = self._bookie_settings(folder / name, port)
            self._add(folder, name, "server", BOOKIE_MEMORY, BOOKIE, ["--conf"], settings)
        for number, (port, http) in enumerate(self._broker_ports, 1):
            settings = self._broker_settings(port, http)
            self._add(folder, f"broker{number}", "server", BROKER_MEMORY, BROKER, ["-c"], settings)
        if self._has_proxy:
            self._add(folder, "proxy", "proxy", PROXY_MEMORY, PROXY, ["-c"], self._proxy_settings())

    def _add(
        self,
        folder: Path,
        name: str,
        profile: str,
        memory: tuple[str, ...],
        main_class: str,
        option: list[str],
        settings: dict[str, object],
    ) -> None:
        conf = folder / f"{name}.conf"
        conf.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        command = [*jvm(profile, memory, "info"), *_FLAGS, main_class, *option, str(conf)]
        self.members[name] = Member(name, folder / name, command, lambda: self._is_ready(name))

    def _is_ready(self, name: str) -> bool:
        if name == "zk":
            return listens(self._zk_port)
        if name == "proxy":
            return listens(self._proxy_ports[0]) and listens(self._proxy_ports[1])
        number = int(name[-1]) - 1
        if name.startswith("bookie"):
            return listens(self._bookie_ports[number])
        port, http = self._broker_ports[number]
        return listens(port) and answers(f"http://127.0.0.1:{http}/admin/v2/brokers/ready")

    def _zk_settings(self, folder: Path) -> dict[str, object]:
        return {
            "tickTime": 1000,
            "dataDir": folder / "zk" / "data",
            "clientPort": self._zk_port,
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
            "maxClientCnxns": 0,
        }

    def _bookie_settings(self, folder: Path, port: int) -> dict[str, object]:
        return {
            "bookiePort": port,
            "advertisedAddress": "127.0.0.1",
            "listeningInterface": "lo",
            "allowLoopback": "true",
            "httpServerEnabled": "false",
            "metadataServiceUri": f"metadata-store:{self._store}",
            "zkTimeout": SESSION_MS,
            "journalDirectories": folder / "journal",
            "ledgerDirectories": folder / "ledgers",
            "ledgerStorageClass": "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage",
            "journalSyncData": "true",
            "journalMaxGroupWaitMSec": 1,
            "journalPreAllocSizeMB": 4,
            "nettyMaxFrameSizeBytes": 5253120,
            "diskUsageThreshold": 0.99,
            "diskUsageWarnThreshold": 0.98,
            "dbStorage_writeCacheMaxSizeMb": 32,
            "dbStorage_readAheadCacheMaxSizeMb": 32,
        }

    def _broker_settings(self, port: int, http: int) -> dict[str, object]:
        return {
            "metadataStoreUrl": self._store,
            "configurationMetadataStoreUrl": self._store,
            "metadataStoreSessionTimeoutMillis": SESSION_MS,
            "clusterName": "local",
            "brokerServicePort": port,
            "webServicePort": http,
            "bindAddress": "127.0.0.1",
            "advertisedAddress": "127.0.0.1",
            # Two copies on two bookies, so that one may be down.
            "managedLedgerDefaultEnsembleSize": 2,
            "managedLedgerDefaultWriteQuorum": 2,
            "managedLedgerDefaultAckQuorum": 2,
            "managedLedgerCacheSizeMB": 64,
            "acknowledgmentAtBatchIndexLevelEnabled": "true",
            "transactionCoordinatorEnabled": "true",
            "systemTopicEnabled": "true",
            "topicLevelPoliciesEnabled": "true",
            # Topics move when a test has them moved, or kills their owner.
            "loadBalancerSheddingEnabled": "false",
            "brokerShutdownTimeoutMs": 5000,
            **self._settings,
        }

    def _proxy_settings(self) -> dict[str, object]:
        return {
            "metadataStoreUrl": self._store,
            "configurationMetadataStoreUrl": self._store,
            "clusterName": "local",
            "servicePort": self._proxy_ports[0],
            "webServicePort": self._proxy_ports[1],
            "bindAddress": "127.0.0.1",
            "advertisedAddress": "127.0.0.1",
            # Else it leads to brokers on Pulsar's own ports only.
            "brokerProxyAllowedTargetPorts": "*",
        }
