"""Apache Pulsar's published artifacts: where they are kept, and how they get there.

    .venv/bin/python tests/apache/artifacts.py      fetches them, or says why it cannot

Maven resolves what pom.xml names, from wherever it is set up to find things, into a cache:
`.build/apache`, or MAGNETAR_APACHE_CACHE. That takes minutes and about 400 MB, once; the
cache holds the artifacts of one pom.xml and drops those of an older one. `make test` uses
what is there and fetches nothing. With MAGNETAR_APACHE_LONG set (`make test-long`) the tests
fetch first; where MAGNETAR_REQUIRE names `apache` they do so too, and fail if that fails.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
POM = HERE / "pom.xml"
CACHE = Path(
    os.environ.get("MAGNETAR_APACHE_CACHE") or HERE.parent.parent / ".build" / "apache"
).resolve()
JAVA_MIN = 17
# The profiles of pom.xml: the server, the proxy of clusters, and the tools with the client.
PROFILES = ("server", "proxy", "tools")
CLASSPATH = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath"
FETCH_S = 900


class ArtifactsMissing(Exception):
    """Why Apache Pulsar cannot be had here, in one line."""


def directory() -> Path:
    """Where this pom.xml's artifacts are, or will be."""
    return CACHE / hashlib.sha256(POM.read_bytes()).hexdigest()[:12]


def cached() -> bool:
    """Whether everything is there already."""
    return all((directory() / f"{profile}.classpath").exists() for profile in PROFILES)


def classpath(profile: str) -> list[Path]:
    """The jars of a profile, in Maven's order."""
    repository = directory() / "repository"
    names = (directory() / f"{profile}.classpath").read_text().split()
    return [repository / name for name in names]


def fetch() -> None:
    """Resolves what is missing. Raises ArtifactsMissing."""
    java_version()
    with _locked():
        for other in CACHE.iterdir():
            if other.is_dir() and other != directory():
                shutil.rmtree(other)
        directory().mkdir(exist_ok=True)
        for profile in PROFILES:
            if not (directory() / f"{profile}.classpath").exists():
                _resolve(profile)


@cache
def java_version() -> int:
    """The major version of the java command. Raises ArtifactsMissing."""
    if shutil.which("java") is None:
        raise ArtifactsMissing(f"no java command; Apache Pulsar needs Java {JAVA_MIN} or newer")
    ran = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(\d+)', ran.stderr)
    version = int(found[1]) if found else 0
    if version < JAVA_MIN:
        raise ArtifactsMissing(f"Java {version} found; Apache Pulsar needs {JAVA_MIN} or newer")
    return version


@contextmanager
def _locked() -> Iterator[None]:
    """One fetch at a time, also of several test runs."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _resolve(profile: str) -> None:
    if shutil.which("mvn") is None:
        raise ArtifactsMissing("no mvn command to fetch Apache Pulsar's artifacts with")
    repository = directory() / "repository"
    found = directory() / f"{profile}.found"
    command = ["mvn", "--batch-mode", "--quiet", "--file", str(POM), "--activate-profiles", profile]
    command += [f"-Dmaven.repo.local={repository}", CLASSPATH]
    command += ["-DincludeScope=runtime", f"-Dmdep.outputFile={found}"]
    try:
        ran = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=FETCH_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ArtifactsMissing(f"Maven was not done after {FETCH_S} s ({profile})") from None
    if ran.returncode != 0:
        raise ArtifactsMissing(f"Maven cannot resolve the {profile}: {_first_error(ran.stdout)}")
    # Relative to the repository, and with a rename at the end: complete, or not there.
    jars = found.read_text().strip().split(os.pathsep)
    names = [str(Path(jar).relative_to(repository)) for jar in jars]
    found.write_text("\n".join(names) + "\n")
    found.rename(directory() / f"{profile}.classpath")


def _first_error(output: str) -> str:
    errors = [line for line in output.splitlines() if line.startswith("[ERROR]")]
    return errors[0].removeprefix("[ERROR]").strip()[:300] if errors else "it does not say why"


def main() -> int:
    try:
        fetch()
    except ArtifactsMissing as error:
        print(f"no Apache Pulsar: {error}")
        return 1
    print(f"Apache Pulsar's artifacts are in {os.path.relpath(directory())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
