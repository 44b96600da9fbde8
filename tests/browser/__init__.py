"""Workbench in a real JupyterLab in a real browser. A package, for fixtures that end with it.

Playwright keeps an event loop running in its thread, in which nobody else's `asyncio.run` works.
So its fixtures have the scope of this package, and are gone when the next folder's tests run.
"""
