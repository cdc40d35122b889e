"""Records of what happens: traces of requests, observers, the log `alance.io`.

Requests are reported here by whoever sends them. May import only `stores` and `loop`.
"""
