"""What stands in for librt's `BytesWriter` where librt is not installed."""


class BytesWriter(bytearray):
    """A bytearray with the names that librt uses."""

    def write(self, value: bytes) -> None:
        self += value

    def getvalue(self) -> bytes:
        return bytes(self)


def write_i32_be(out: BytesWriter, value: int) -> None:
    out += value.to_bytes(4, "big", signed=True)


def write_i32_le(out: BytesWriter, value: int) -> None:
    out += value.to_bytes(4, "little", signed=True)


def write_i64_le(out: BytesWriter, value: int) -> None:
    out += value.to_bytes(8, "little", signed=True)
