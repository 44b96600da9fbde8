"""Running tasks and cells, capturing and showing output; no client, no shared memory."""
