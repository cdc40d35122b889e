"""The event loop and its surroundings: futures, tasks, threads, time limits, system calls.

Nothing here reads or writes objects. May import no other folder of `alance.io`.
"""
