"""The worker: one process that claims, runs and settles jobs.

link        the one loop that talks to the server about jobs
runner      runs a job and returns an Outcome; knows no server
pool        the threads in which jobs run
heartbeat   extends the leases of held jobs, on a connection of its own
waiter      sleeps at the server until a queue has work
process     puts these together; signals, exit codes
supervisor  several processes; restarts those that die
reload      restarts on changed code, for development
"""
