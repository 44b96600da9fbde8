"""Ray: `backend` runs sessions on a cluster of its, `observed` is a read-only view of one."""
