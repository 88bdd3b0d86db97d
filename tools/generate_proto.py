"""Writes pulsar_pb2.py and pulsar_pb2.pyi from pulsar.proto; `--check` only compares.

protoc's own Python output demands the protobuf release it came with, or a newer one. A
library cannot ask that of its users, so protoc gives us the descriptor only: the module
holds it and builds the classes with protobuf's stable API, and the stub tells the type
checkers of the fields. Enums are plain numbers there; magnetar.model has their names.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from grpc_tools import protoc

SOURCE = Path(__file__).parent.parent / "src"
PROTO = SOURCE / "magnetar" / "protocol" / "pulsar.proto"

MODULE = '''\
"""Pulsar's messages as protobuf classes. `make proto` wrote this from pulsar.proto."""

from google.protobuf import descriptor_pool, message_factory

DESCRIPTOR = descriptor_pool.Default().AddSerializedFile(
{descriptor}
)

for _descriptor in DESCRIPTOR.message_types_by_name.values():
    globals()[_descriptor.name] = message_factory.GetMessageClass(_descriptor)
'''

STUB = '''\
"""Types for pulsar_pb2.py. `make proto` wrote this from pulsar.proto."""

from collections.abc import Iterable

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.internal.containers import (
    RepeatedCompositeFieldContainer,
    RepeatedScalarFieldContainer,
)
from google.protobuf.message import Message

DESCRIPTOR: FileDescriptor

'''

PYTHON_TYPES = {
    FieldDescriptorProto.TYPE_DOUBLE: "float",
    FieldDescriptorProto.TYPE_INT64: "int",
    FieldDescriptorProto.TYPE_UINT64: "int",
    FieldDescriptorProto.TYPE_INT32: "int",
    FieldDescriptorProto.TYPE_UINT32: "int",
    FieldDescriptorProto.TYPE_BOOL: "bool",
    FieldDescriptorProto.TYPE_STRING: "str",
    FieldDescriptorProto.TYPE_BYTES: "bytes",
    FieldDescriptorProto.TYPE_ENUM: "int",
}


def descriptor() -> FileDescriptorProto:
    """What protoc makes of the schema."""
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "descriptor"
        name = PROTO.relative_to(SOURCE).as_posix()
        if protoc.main(["protoc", f"-I{SOURCE}", f"--descriptor_set_out={output}", name]) != 0:
            raise SystemExit(f"protoc refuses {name}")
        (file,) = FileDescriptorSet.FromString(output.read_bytes()).file
        return file


def module(file: FileDescriptorProto) -> str:
    """The module: the descriptor in short lines, so that a change shows as a small diff."""
    data = file.SerializeToString(deterministic=True)
    lines = (f"    {data[i : i + 48]!r}" for i in range(0, len(data), 48))
    return MODULE.format(descriptor="\n".join(lines))


def stub(file: FileDescriptorProto) -> str:
    return STUB + "\n".join(line for m in file.message_type for line in message_stub(m))


def message_stub(message: DescriptorProto) -> Iterator[str]:
    yield f"class {message.name}(Message):"
    yield from (attribute(f) for f in message.field)
    yield "    def __init__("
    yield "        self,"
    if message.field:
        yield "        *,"
    yield from (parameter(f) for f in message.field)
    yield "    ) -> None: ...\n"


def attribute(field: FieldDescriptorProto) -> str:
    kind = python_type(field)
    message = field.type == FieldDescriptorProto.TYPE_MESSAGE
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        container = "Composite" if message else "Scalar"
        kind = f"Repeated{container}FieldContainer[{kind}]"
    elif message:
        return f"    @property\n    def {field.name}(self) -> {kind}: ..."
    return f"    {field.name}: {kind}"


def parameter(field: FieldDescriptorProto) -> str:
    kind = python_type(field)
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        kind = f"Iterable[{kind}]"
    return f"        {field.name}: {kind} | None = ...,"


def python_type(field: FieldDescriptorProto) -> str:
    return PYTHON_TYPES.get(field.type) or field.type_name.rpartition(".")[2]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if a file is out of date")
    check = parser.parse_args().check
    file = descriptor()
    files = {"pulsar_pb2.py": module(file), "pulsar_pb2.pyi": stub(file)}
    stale = [name for name, text in files.items() if text != present(PROTO.with_name(name))]
    for name in stale:
        if check:
            print(f"{name} is not what pulsar.proto says: run `make proto`", file=sys.stderr)
        else:
            PROTO.with_name(name).write_text(files[name])
    return bool(stale) if check else 0


def present(path: Path) -> str:
    return path.read_text() if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
