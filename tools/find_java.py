"""Finds a JDK for Spark as pipelines do, installs Debian's where that may be done, or says what
to install.

Root on a system with apt-get may install one with `--install`, which `make test` asks for;
everybody else is told the command. Prints JAVA_HOME.
"""

import argparse
import os
import shutil
import subprocess
import sys

from magnetar.errors import SettingsError
from magnetar.spark.pipelines.java import find_java

PACKAGES = ("openjdk-17-jre-headless", "openjdk-21-jre-headless", "default-jre-headless")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--install", action="store_true", help="install it if that may be done")
    install = parser.parse_args().install
    try:
        print(find_java())
    except SettingsError as error:
        if not install or not install_java():
            print(error, file=sys.stderr)
            return 1
        print(find_java())
    return 0


def install_java() -> bool:
    """Debian's, if we are root and there is apt-get."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return False
    for package in PACKAGES:
        print(f"installing {package} for Spark", file=sys.stderr)
        command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", package]
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        ran = subprocess.run(command, env=environment, stdout=sys.stderr, timeout=600)
        if ran.returncode == 0:
            return True
    return False


if __name__ == "__main__":
    sys.exit(main())
