"""Values ↔ header and buffers. Knows no store, no socket, no object id."""
