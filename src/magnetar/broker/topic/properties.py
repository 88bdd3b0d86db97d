"""Small maps of text, as bytes: what the store keeps beside a cursor."""

import json

__all__ = ["pack_numbers", "pack_properties", "unpack_numbers", "unpack_properties"]


def pack_properties(properties: dict[str, str], type_name: str = "") -> bytes:
    """Returns the bytes of a subscription's properties, and of its type if that is to be kept."""
    if type_name:
        return json.dumps([type_name, properties]).encode()
    return json.dumps(properties).encode() if properties else b""


def unpack_properties(data: bytes) -> tuple[dict[str, str], str]:
    """Returns the properties and the type of a subscription."""
    found = json.loads(data) if data else {}
    type_name = ""
    if isinstance(found, list):
        type_name, found = str(found[0]), found[1]
    return {str(k): str(v) for k, v in found.items()}, type_name


def pack_numbers(numbers: dict[str, int]) -> bytes:
    return json.dumps(numbers).encode()


def unpack_numbers(data: bytes) -> dict[str, int]:
    return {str(k): int(v) for k, v in json.loads(data).items()} if data else {}
