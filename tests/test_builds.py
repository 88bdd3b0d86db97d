"""The compiled and the interpreted build say the same about the same bytes."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.exercise import transcript
from support.requirement import need
from support.schema import descriptor_of
from support.strategies import COMMANDS, UINT64, frame, frames, messages, mutations, varint

import magnetar
from magnetar.protocol import BrokerEntryMetadata, encode_batch, encode_entry, with_broker_metadata
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.protocol.payload.batch import SingleMessage

ROOT = Path(__file__).parent.parent
COMPILED = ROOT / ".build" / "compiled"


class Worker:
    """A process that runs the other build."""

    def __init__(self) -> None:
        path = ROOT / "src" if magnetar.COMPILED else COMPILED
        self.process = subprocess.Popen(
            [sys.executable, str(ROOT / "tests" / "support" / "exercise.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": f"{path}{os.pathsep}{ROOT / 'tests'}"},
        )
        self.build = self._read(1)

    def transcript(self, data: bytes) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(len(data).to_bytes(4, "big") + data)
        self.process.stdin.flush()
        return self._read(int.from_bytes(self._read(4), "big")).decode()

    def _read(self, size: int) -> bytes:
        assert self.process.stdout is not None
        data = self.process.stdout.read(size)
        assert len(data) == size, "the other build died"
        return data

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    need("compiled", magnetar.COMPILED or COMPILED.is_dir(), "`make compiled` builds it")
    worker = Worker()
    yield worker
    worker.close()


def test_there_are_two_builds_to_compare(worker: Worker) -> None:
    assert worker.build == (b"I" if magnetar.COMPILED else b"C")


@st.composite
def entries(draw: st.DrawFn) -> bytes:
    metadata = draw(messages(descriptor_of(pb.MessageMetadata))).SerializeToString()
    entry = encode_entry(metadata, draw(st.binary(max_size=20)), checksum=draw(st.booleans()))
    if draw(st.booleans()):
        numbers = st.none() | st.integers(-(2**63), 2**63 - 1)
        entry = with_broker_metadata(entry, BrokerEntryMetadata(draw(numbers), draw(numbers)))
    return entry


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    single = st.builds(SingleMessage, st.binary(max_size=10), st.none() | st.integers(0, 2**63 - 1))
    return encode_batch(draw(st.lists(single, max_size=3)))


@st.composite
def extremes(draw: st.DrawFn) -> bytes:
    """Every varint field of a hot command, with numbers from the edge of 64 bits."""
    number = draw(st.sampled_from([6, 7, 9, 10, 11, 38]))
    body = b"".join(
        varint(field.number << 3) + varint(draw(UINT64)) for field in COMMANDS[number].fields
    )
    if number == 9:
        body += b"\x12" + varint(22) + b"\x08" + varint(2**64 - 1) + b"\x10" + varint(2**64 - 1)
    return frame(number, body)


INPUTS = frames() | entries() | batches() | extremes() | st.binary(max_size=100)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_both_builds_agree_on_every_result_and_error(worker: Worker, data: st.DataObject) -> None:
    sound = data.draw(INPUTS)
    for encoded in (sound, data.draw(mutations(sound))):
        assert worker.transcript(encoded) == transcript(encoded)
