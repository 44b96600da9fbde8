"""The worker process: how it is forked, how it runs tasks, where its output goes."""
