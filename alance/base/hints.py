"""Errors for names and uses that users of other libraries expect: they say what to write here."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from alance.base.checks import did_you_mean

# Public names that users of other libraries look for, with their names here.
_COUNTERPARTS: Final = {
    "Client": "connect(uri)",
    "LanceDataset": "dataset",
    "LanceFileReader": "FileReader",
    "LanceFragment": "DatasetFragment",
    "LanceModel": "a list of models as data: write_dataset(models, uri)",
    "LanceOperation": "operations",
    "Table": "dataset",
    "Vector": "pyarrow.list_(pyarrow.float32(), size) in a schema",
    "append": 'write_dataset(data, uri, mode="append")',
    "blob": "blob_field",
    "connect_async": "connect",
    "create_dataset": "write_dataset",
    "create_engine": "connect(uri)",
    "create_table": "write_dataset",
    "delete": "drop",
    "delete_table": "drop",
    "drop_table": "drop",
    "exceptions": "errors at the top: alance.AlanceError",
    "exists": "table_exists of connect(folder)",
    "from_pandas": "write_dataset",
    "list_tables": "list_tables of connect(folder)",
    "load": "dataset",
    "load_table": "dataset",
    "merge": "merge_insert of a dataset",
    "open": "dataset",
    "open_dataset": "dataset",
    "open_table": "dataset",
    "read": "dataset",
    "read_lance": "dataset",
    "read_parquet": "pyarrow.dataset.dataset(path), which write_dataset takes",
    "read_table": "dataset",
    "save": "write_dataset",
    "scan": "dataset(uri).scanner()",
    "scan_lance": "dataset(uri).to_polars_lazy()",
    "sql": "sql of a dataset",
    "table": "dataset",
    "to_lance": "write_dataset",
    "vector": "pyarrow.list_(pyarrow.float32(), size) in a schema",
    "write": "write_dataset",
    "write_lance": "write_dataset",
    "write_table": "write_dataset",
}


def no_name(module: str, name: str) -> AttributeError:
    """Return the error for a name that a module lacks, with its counterpart here.

    Python itself suggests similar names when it prints the error. They are not searched here,
    because every import of a submodule first asks for a missing name, and importing `difflib` takes
    a millisecond.
    """
    counterpart = _COUNTERPARTS.get(name) if module in ("alance", "alance.sync") else None
    hint = ""
    if counterpart is not None:
        is_name = counterpart.isidentifier()
        hint = f", did you mean {counterpart!r}?" if is_name else f"; write {counterpart}"
    message = f"module {module!r} has no attribute {name!r}{hint}"
    return AttributeError(message, name=name, obj=sys.modules.get(module))


# Attributes that users of other libraries look for, with what to write here.
_MEMBERS: Final = {
    ("Catalog", "create"): "create_table",
    ("Catalog", "create_collection"): "create_table",
    ("Catalog", "cursor"): "(await catalog.open_table(name)).sql(query)",
    ("Catalog", "delete_table"): "drop_table",
    ("Catalog", "drop"): "drop_table",
    ("Catalog", "execute"): "(await catalog.open_table(name)).sql(query)",
    ("Catalog", "exists"): "table_exists",
    ("Catalog", "get_collection"): "open_table",
    ("Catalog", "get_table"): "open_table",
    ("Catalog", "items"): "list_tables",
    ("Catalog", "keys"): "list_tables",
    ("Catalog", "list_collection_names"): "list_tables",
    ("Catalog", "load_table"): "open_table",
    ("Catalog", "open"): "open_table",
    ("Catalog", "query"): "(await catalog.open_table(name)).sql(query)",
    ("Catalog", "sql"): "(await catalog.open_table(name)).sql(query)",
    ("Catalog", "table"): "open_table",
    ("Catalog", "table_names"): "list_tables",
    ("Catalog", "tables"): "list_tables",
    ("DatasetFragment", "count"): "count_rows()",
    ("DatasetFragment", "id"): "fragment_id",
    ("DatasetFragment", "num_rows"): "count_rows()",
    ("DatasetFragment", "to_arrow"): "to_table()",
    ("MergeInsert", "run"): "execute(data)",
    ("MergeInsert", "when_matched"): "when_matched_update_all",
    ("MergeInsert", "when_matched_update"): "when_matched_update_all",
    ("MergeInsert", "when_not_matched"): "when_not_matched_insert_all",
    ("MergeInsert", "when_not_matched_insert"): "when_not_matched_insert_all",
    ("Optimize", "execute_compaction"): "compact_files()",
    ("Optimize", "vacuum"): "cleanup_old_versions() of the dataset",
    ("Scanner", "collect"): "to_table()",
    ("Scanner", "count"): "count_rows()",
    ("Scanner", "explain_analyze"): "analyze_plan()",
    ("Scanner", "filter"): "scanner(filter=)",
    ("Scanner", "head"): "scanner(limit=).to_table()",
    ("Scanner", "limit"): "scanner(limit=)",
    ("Scanner", "nearest"): "scanner(nearest=)",
    ("Scanner", "num_rows"): "count_rows()",
    ("Scanner", "schema"): "projected_schema",
    ("Scanner", "select"): "scanner(columns=)",
    ("Scanner", "to_arrow"): "to_table()",
    ("Scanner", "to_list"): "to_table().to_pylist()",
    ("Scanner", "to_reader"): "to_batches()",
    ("Scanner", "where"): "scanner(filter=)",
    ("Session", "close"): "aclose",
    ("Session", "execute"): "sql(query) of a dataset",
    ("Session", "query"): "alance.dataset(uri, session=session)",
    ("Sink", "append"): "write(data)",
    ("Sink", "commit"): "flush()",
    ("Sink", "insert"): "write(data)",
    ("Sink", "put"): "write(data), or upsert(data) with `on`",
    ("Sink", "send"): "write(data)",
    ("Tags", "add"): "create(name, version)",
    ("Tags", "keys"): "list()",
    ("Tags", "remove"): "delete(name)",
    ("Tags", "set"): "create(name, version), or update(name, version)",
}


# Uses of objects that others allow, with what to write here.
_USES: Final = {
    ("Branches", "()"): "branches.list() or branches.create(name, version)",
    ("Branches", "[]"): "branches.get(name)",
    ("Branches", "len"): "branches.list()",
    ("Catalog", "[] ="): "create_table(name, data)",
    ("Catalog", "[]"): "open_table(name), list_tables() for the names",
    ("Catalog", "del"): "drop_table(name)",
    ("Catalog", "in"): "table_exists(name)",
    ("Catalog", "len"): "list_tables()",
    ("FileReader", "[]"): "take(rows) or to_table(start=, stop=)",
    ("FileReader", "len"): "num_rows",
    ("MergeInsert", "()"): "execute(data)",
    ("Scanner", "[]"): "to_table() or to_batches()",
    ("Optimize", "()"): "optimize.compact_files(), optimize.optimize_indices() or maintain()",
    ("Tags", "()"): "tags.list() or tags.create(name, version)",
    ("Tags", "[]"): "tags.get_version(name)",
    ("Tags", "len"): "tags.list()",
}
_USES_OF_ROWS: Final = {
    "[] =": "add_columns, replace_columns or update",
    "async for": "`async for batch in dataset.to_batches()`",
    "del": "delete(predicate) or drop_columns(columns)",
    "in": "get(key, column)",
    "len": "count_rows()",
}
_WITH_ROWS: Final = ("Dataset", "DatasetFragment", "Scanner")


def no_use(subject: object, use: str, hint: str = "") -> TypeError:
    """Return the error for an object in a place of Python's syntax that its class does not support.

    Args:
        subject: the object.
        use: the syntax, such as `len`.
        hint: what to write instead, unless the class has a hint of its own.
    """
    kind = next(base.__name__ for base in type(subject).__mro__ if base.__name__[0] != "_")
    if kind in _WITH_ROWS:
        hint = _USES_OF_ROWS.get(use, hint)
    hint = _USES.get((kind, use), hint)
    return TypeError(f"{kind!r} object does not support {use}{hint and f'; write {hint}'}")


def _item_hint(key: object) -> str:
    """Return the call to write instead of `dataset[key]`, which other libraries support."""
    if isinstance(key, slice):
        start, stop = key.start or 0, key.stop
        if any(isinstance(end, int) and end < 0 for end in (start, stop)):
            return "take(positions), with count_rows() for the last ones"
        return f"to_table(offset={start}{'' if stop is None else f', limit={stop - start}'})"
    if isinstance(key, str):
        return f"to_table(columns=[{key!r}])"
    if isinstance(key, list | tuple) and all(isinstance(name, str) for name in key):
        return f"to_table(columns={[*key]!r})"
    if isinstance(key, int):
        return f"take([{key}]) for a row, to_batches() to iterate"
    return "take(positions), or to_table(filter=)"


class Hinted:
    """Base class whose errors for missing attributes and unsupported syntax say what to write.

    There is no `__iter__`, so that nobody takes the objects for iterables: Python then asks for
    item 0, whose error is about iteration, too.
    """

    __slots__ = ()

    if not TYPE_CHECKING:  # a type checker finds them by itself

        def __getattr__(self, name: str) -> Any:
            kind, hint = type(self), ""
            if (kind.__name__, name) in _MEMBERS:
                hint = f"; write `{_MEMBERS[kind.__name__, name]}`"
            elif name[:1] != "_":
                hint = did_you_mean(name, [member for member in dir(kind) if member[0] != "_"])
            raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}{hint}")

        def __getitem__(self, key: object) -> Any:
            is_table = type(self).__name__ in _WITH_ROWS
            raise no_use(self, "[]", _item_hint(key) if is_table else "")

        def __setitem__(self, key: object, value: object) -> None:
            raise no_use(self, "[] =")

        def __delitem__(self, key: object) -> None:
            raise no_use(self, "del")

        def __contains__(self, key: object) -> bool:
            raise no_use(self, "in")

        def __len__(self) -> int:
            raise no_use(self, "len")

        def __bool__(self) -> bool:
            return True

        def __enter__(self) -> None:
            waits = hasattr(type(self), "__aexit__")
            raise no_use(self, "with", "`async with`" if waits else "no block: it needs no end")

        def __exit__(self, *error: object) -> None:
            """Do nothing. Python looks `__exit__` up before it calls `__enter__`."""


class Uncalled(Hinted):
    """`Hinted` for what others call as a function."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __call__(self, *values: object, **named: object) -> None:
            raise no_use(self, "()")
