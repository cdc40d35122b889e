"""Tables by name: in a folder, as LanceDB and Lance's directory namespace lay them out, or of a
catalog server that speaks the REST protocol of Lance namespaces.

`alance.connect` gives a `Catalog`, whose tables are opened, created, renamed and dropped by name.
What is below it is a `Backend`: `directory` or `client`. A new kind of catalog is one more.
"""

from alance.catalogs.catalog import Catalog, connect

__all__ = ["Catalog", "connect"]
