"""A table for the measurement of handlers that use the ORM."""
