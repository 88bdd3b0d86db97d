"""Who has no permission learns it from every pipeline, and nothing was touched."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyspark.sql import SparkSession
from support.broker_process import BrokerProcess
from support.tables import path_of
from support.tokens import token

from magnetar.errors import AuthenticationError, AuthorizationError
from magnetar.spark.pipelines.archive import ArchiveOptions, archive
from magnetar.spark.pipelines.audit import AuditOptions, audit
from magnetar.spark.pipelines.letter.target import Target
from magnetar.spark.pipelines.purge import PurgeOptions, purge
from magnetar.spark.pipelines.redrive import RedriveOptions, redrive

TOPIC = "persistent://public/default/guarded"
RUNS: dict[str, Callable[[SparkSession, Target, Path], Any]] = {
    "archive": lambda spark, at, path: archive(
        spark,
        ArchiveOptions(target=at, subscription="s", to=str(path / "out"), topics=(TOPIC,)),
    ),
    "audit": lambda spark, at, path: audit(spark, AuditOptions(at, TOPIC, "s")),
    "purge": lambda spark, at, path: purge(spark, PurgeOptions(at, TOPIC, "s", "true", apply=True)),
    "redrive": lambda spark, at, path: redrive(
        spark, RedriveOptions(at, TOPIC, checkpoint=str(path / "plan"), apply=True)
    ),
}


@pytest.mark.parametrize("pipeline", RUNS)
def test_without_permission_nothing_is_touched(
    spark: SparkSession, guarded: BrokerProcess, tmp_path: Path, pipeline: str
) -> None:
    for auth in ("", token("nobody")):
        target = Target(guarded.url, guarded.http_url, token=auth)
        with pytest.raises((AuthenticationError, AuthorizationError), match=r"token|nobody|40[13]"):
            RUNS[pipeline](spark, target, tmp_path)
    assert list(tmp_path.iterdir()) == []
    headers = {"Authorization": f"Bearer {token('root')}"}
    stats = httpx.get(f"{guarded.http_url}/admin/v2{path_of(TOPIC)}/stats", headers=headers)
    assert stats.raise_for_status().json()["subscriptions"] == {}
