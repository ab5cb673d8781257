"""A Django job queue on Valkey/Redis in which a job's state is the place where its id lives."""

__version__ = "0.1.0.dev0"
