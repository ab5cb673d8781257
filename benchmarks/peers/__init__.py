"""Other queues: each has a virtual environment of its own, and a module that only that environment can import."""
