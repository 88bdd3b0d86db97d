"""The real store on a disk that rots: what was receipted is there, or somebody is told."""

import os
import shutil
from pathlib import Path
from random import Random

import pytest
from sim.rot_life import ROT, run_seed

from magnetar.errors import MagnetarError
from magnetar.storage import Catalog
from magnetar.storage.catalog.catalog_guard import open_catalog
from magnetar.storage.catalog.catalog_mark import CatalogMark

# Each takes a second, and is a store of several lives with eight damaged copies of each.
SEEDS = max(2, int(os.environ.get("MAGNETAR_SIM_SEEDS", "50")) // 12)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_damage_is_never_silent_and_passing_trouble_leaves_nothing(seed: int) -> None:
    _, oracle = run_seed(seed)
    assert oracle.receipted


def test_the_seeds_bring_every_shortage_and_every_outcome() -> None:
    outcomes: set[str] = set()
    lines = ""
    for seed in range(3):
        loop, oracle = run_seed(seed)
        outcomes |= set(oracle.outcomes)
        lines += loop.trace.text()
    assert outcomes == {"whole", "told", "refused"}
    for sign in ("Too many open files", "Cannot allocate memory", "No space left", "jumps by -"):
        assert sign in lines


# ---- The catalog -----------------------------------------------------------------
# SQLite reads and writes its files itself, so they are real ones here.

SPACE = "rights"


def live(directory: Path, random: Random) -> tuple[CatalogMark, dict[str, str]]:
    """Rights come and go; what the journal knows of that, and what there is in the end."""
    catalog = Catalog(directory / "running")
    for _ in range(random.randrange(1, 60)):
        key = f"role-{random.randrange(8)}"
        if random.random() < 0.4:
            catalog.delete(SPACE, key)
        else:
            catalog.put(SPACE, key, f'["{random.randrange(100)}"]')
    mark, items = catalog.mark, dict(catalog.items(SPACE))
    # As kill -9 leaves it, with a log of its own; or as a stop does.
    killed = random.random() < 0.7
    if killed:
        shutil.copytree(directory / "running", directory / "left")
    catalog.close()
    if not killed:
        (directory / "running").rename(directory / "left")
    return mark, items


def rot_catalog(directory: Path, random: Random) -> str:
    path = random.choice(sorted(directory.glob("catalog.sqlite*")))
    data = bytearray(path.read_bytes())
    way = random.choice(ROT)
    at = random.randrange(max(1, len(data)))
    if way == "delete":
        path.unlink()
        return f"delete {path.name}"
    if way == "cut":
        del data[at:]
    elif way == "zero":
        data[at : at + 512] = bytes(len(data[at : at + 512]))
    elif data:
        data[at] ^= 1 << random.randrange(8)
    path.write_bytes(data)
    return f"{way} {path.name} at {at} of {len(data)}"


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_catalog_that_rots_is_whole_or_refused(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    (tmp_path / "running").mkdir()
    mark, items = live(tmp_path, random)
    outcomes: set[str] = set()
    for number in range(40):
        copy = tmp_path / f"copy-{number}"
        shutil.copytree(tmp_path / "left", copy)
        what = rot_catalog(copy, random)
        try:
            catalog = open_catalog(copy, mark, accept_loss=False)
        except MagnetarError as error:
            assert str(error), what
            outcomes.add("refused")
        else:
            try:
                assert dict(catalog.items(SPACE)) == items, f"seed {seed}: {what}"
            except MagnetarError:
                outcomes.add("told")
            catalog.close()
            outcomes.add("whole")
        shutil.rmtree(copy)
    assert "refused" in outcomes
