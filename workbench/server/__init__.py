"""The store server: the process around `core`. Opaque bytes only; it never unpickles."""
