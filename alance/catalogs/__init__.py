"""Tables by name: in a folder, from a catalog server, or in a metastore such as Glue.

A folder has the layout of LanceDB and Lance's directory namespace; a server speaks the REST
protocol of Lance namespaces. `alance.connect` returns a `Catalog`, which opens, creates, renames
and drops tables by name. A `Catalog` uses a `Backend`: `directory`, `client` or `metastore`. A
metastore of databases and tables is a new `Metastore`, as `glue` and `unity` are; another kind of
catalog is a new backend.
"""

from alance.catalogs.catalog import Catalog, connect

__all__ = ["Catalog", "connect"]
