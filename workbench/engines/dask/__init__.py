"""Dask: cells on its workers (`backend` and what it stands on), and its sessions as views show them
(`observed`). Nothing here is imported before somebody names Dask."""
