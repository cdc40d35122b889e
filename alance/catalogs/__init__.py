"""Tables by name: in a folder, or from a catalog server.

A folder has the layout of LanceDB and Lance's directory namespace; a server speaks the REST
protocol of Lance namespaces. `alance.connect` returns a `Catalog`, which opens, creates, renames
and drops tables by name. A `Catalog` uses a `Backend`: `directory` or `client`. A new kind of
catalog is a new backend.
"""

from alance.catalogs.catalog import Catalog, connect

__all__ = ["Catalog", "connect"]
