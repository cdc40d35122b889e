"""Object stores through obstore: requests, listings, uploads, retries, endpoints.

May import `events`, `stores` and `loop`. A new kind of cloud begins here and in `opening`.
"""
