"""How fast it is, beside the server's own limit and beside other queues: `python -m benchmarks`, or `make bench`."""
