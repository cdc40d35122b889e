"""Opening of data files: containers, columns, page states and tables, statistics, descriptions.

Plans only: nothing here waits. `page_tables` and `plain` import modules of `file.rows`.
"""
