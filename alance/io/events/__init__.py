"""Records of events: traces of requests, observers, the log `alance.io`.

The sender of a request reports it here. May import only `stores` and `loop`.
"""
