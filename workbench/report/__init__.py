"""Every word about a session: one wording of each fact, then text, HTML, JSON, the page, plots."""
