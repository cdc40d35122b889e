"""Stores, the scheduler of range reads, caches and traces. Nothing here knows the format.

Each folder may import the folders below it in this list, never one above or beside it. Of
`alance.format`, only plans, which also coalesce ranges, and numbers may be imported.

    reading: the scheduler of a session and the engine around it
    opening: URIs and storage options become stores; caches: a session's caches
    disk, cloud: stores of local files and of object stores
    events: traces, observers and the log
    stores: the protocol of a store, and objects in memory
    loop: futures, tasks, threads, time limits
"""
