"""Object stores through obstore: requests, listings, uploads, retries, endpoints.

May import `events`, `stores` and `loop`. A new kind of cloud is added here and in `opening`.
"""
