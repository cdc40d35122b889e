"""The event loop and what runs beside it: futures, tasks, threads, time limits, system calls.

Nothing here reads or writes objects. May import no other folder of `alance.io`.
"""
