"""Opening of data files: containers, columns, page states and tables, statistics, descriptions.

All modules only have plans and never wait. `page_tables` and `plain` import modules of `file.rows`.
"""
