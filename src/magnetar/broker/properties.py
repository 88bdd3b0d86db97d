"""Small maps of text, as bytes: what the store keeps beside a cursor."""

import json

__all__ = ["pack_numbers", "pack_properties", "unpack_numbers", "unpack_properties"]


def pack_properties(properties: dict[str, str]) -> bytes:
    return json.dumps(properties).encode() if properties else b""


def unpack_properties(data: bytes) -> dict[str, str]:
    return {str(k): str(v) for k, v in json.loads(data).items()} if data else {}


def pack_numbers(numbers: dict[str, int]) -> bytes:
    return json.dumps(numbers).encode()


def unpack_numbers(data: bytes) -> dict[str, int]:
    return {str(k): int(v) for k, v in json.loads(data).items()} if data else {}
