"""Bytes ↔ messages, sans IO: framing, the codec, and buffers that no signal can tear."""
