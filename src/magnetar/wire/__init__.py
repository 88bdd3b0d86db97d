"""Bytes as protobuf writes them: tags, varints, lengths, bitsets. Knows no Pulsar message."""
