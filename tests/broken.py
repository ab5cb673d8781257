"""A module that cannot be imported."""

raise RuntimeError("broken at import")
