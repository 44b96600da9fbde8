"""The server: the process around `core`. It handles opaque bytes and never unpickles."""
