"""Opening of data files: containers, columns, page states and tables, statistics, descriptions.

All modules only have plans and never wait. `new_pages` and `plain` import modules of `file.rows`.
"""
