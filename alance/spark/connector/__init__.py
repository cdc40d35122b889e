"""The connector's Python: answers Spark's JVM about catalogs, tables, writes and streams."""
