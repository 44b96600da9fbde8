"""Bytes ↔ messages, sans IO: framing, the codec, and a send buffer no signal can tear."""
