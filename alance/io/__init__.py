"""Stores, the scheduler of range reads, caches and traces. Nothing here knows the format.

Each folder imports the folders below it in this list, never one above or beside it; of
`alance.format` only plans, numbers and the rule that coalesces ranges.

    reading: the scheduler of a session and the engine around it
    opening: URIs and storage options become stores; caches: what a session remembers
    disk, cloud: stores of local files and of object stores
    events: traces, observers and the log
    stores: the protocol of a store, and objects in memory
    loop: futures, tasks, threads, time limits
"""
