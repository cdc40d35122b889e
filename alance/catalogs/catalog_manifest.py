"""The table `__manifest` of a folder of tables: a row for each namespace and registered table.

`object_id` is the primary key, the names joined by `$`; `object_type` is `namespace` or `table`;
`location` is a table's folder below the catalog's.

Source: directory namespace catalog specification of lance-namespace.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from alance.base.records import dataclass
from alance.catalogs.backend import DELIMITER, plain, shown
from alance.errors import CorruptFileError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from alance.catalogs.backend import Names
    from alance.datasets import Dataset

MANIFEST: Final = "__manifest"
OBJECT_ID_METADATA: Final = {"lance-schema:unenforced-primary-key:position": "0"}
CATALOG_SCHEMA: Final = pa.schema(
    [
        pa.field("object_id", pa.string(), nullable=False, metadata=OBJECT_ID_METADATA),
        pa.field("object_type", pa.string(), nullable=False),
        pa.field("location", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("base_objects", pa.list_(pa.field("object_id", pa.string()))),
    ]
)


@dataclass(frozen=True, slots=True)
class CatalogManifest:
    """The table `__manifest` at a version, if it exists.

    Attributes:
        uri: URI of the catalog, for messages.
        table: the dataset `__manifest`; None if there is none.
    """

    uri: str
    table: Dataset | None

    async def _rows(
        self, condition: str, params: list[str], column: str = "location"
    ) -> list[dict[str, Any]]:
        if self.table is None:
            return []
        columns = ["object_id", "object_type", column]
        rows = await self.table.to_table(columns, filter=condition, params=params)
        return rows.to_pylist()  # type: ignore[no-any-return]

    async def rows(self, *objects: Names) -> list[dict[str, Any]]:
        """Return the rows of tables and namespaces with one of these names, by one scan."""
        condition = f"object_id IN ({', '.join('?' * len(objects))})"
        return await self._rows(condition, [DELIMITER.join(names) for names in objects])

    async def metadata(self, names: Names) -> str | None:
        """Return the text with a namespace's properties; None if it has none.

        Raises:
            NotFoundError: no such namespace.
        """
        rows = await self._rows("object_id = ?", [DELIMITER.join(names)], "metadata")
        self.check_namespace(rows, names)
        row = row_of(rows, names, "namespace")
        assert row is not None
        return row["metadata"]  # type: ignore[no-any-return]

    async def set_metadata(self, names: Names, old: str | None, new: str) -> bool:
        """Replace the text with a namespace's properties; return False if the text is not `old`."""
        assert self.table is not None
        is_old = "metadata IS NULL" if old is None else "metadata = ?"
        params = [new, DELIMITER.join(names), *([] if old is None else [old])]
        after = await self.table.update(
            {"metadata": "?"},
            f"object_id = ? AND object_type = 'namespace' AND {is_old}",
            params=params,
        )
        return bool(after.summary["num_updated_rows"])

    async def below(self, namespace: Names, *kinds: str) -> dict[str, Any]:
        """Return the last names and the locations of a namespace's direct children, by one scan.

        Raises:
            NotFoundError: no such namespace.
        """
        prefix = DELIMITER.join((*namespace, ""))
        rows = await self._rows(
            "object_id = ? OR starts_with(object_id, ?)", [DELIMITER.join(namespace), prefix]
        )
        if namespace:
            self.check_namespace(rows, namespace)
        locations = {
            row["object_id"].removeprefix(prefix): row["location"]
            for row in rows
            if row["object_type"] in kinds and row["object_id"].startswith(prefix)
        }
        return {name: location for name, location in locations.items() if DELIMITER not in name}

    def check_namespace(self, rows: Iterable[dict[str, Any]], names: Names) -> None:
        """Check that the rows include a namespace.

        Raises:
            NotFoundError: the namespace does not exist.
        """
        if row_of(rows, names, "namespace") is None:
            raise NotFoundError(f"catalog {self.uri!r}: no namespace {shown(names)!r}")

    async def add(
        self, names: Names, kind: str, location: str | None, metadata: str | None
    ) -> None:
        """Add a row.

        Raises:
            InvalidInputError: a row with these names exists.
        """
        assert self.table is not None
        row = {
            "object_id": DELIMITER.join(names),
            "object_type": kind,
            "location": location,
            "metadata": metadata,
            "base_objects": None,
        }
        merge = self.table.merge_insert("object_id").when_matched_fail()
        await merge.when_not_matched_insert_all().execute([row], schema=CATALOG_SCHEMA)

    async def rename(self, names: Names, new: Names) -> None:
        assert self.table is not None
        await self.table.update(
            {"object_id": "?"},
            "object_id = ?",
            params=[DELIMITER.join(new), DELIMITER.join(names)],
        )

    async def move(self, old: str, new: str) -> None:
        """Change the location of all rows of a table whose folder was moved."""
        if await self._rows("location = ?", [old]):
            assert self.table is not None
            await self.table.update({"location": "?"}, "location = ?", params=[new, old])

    async def forget(self, names: Names) -> None:
        """Delete the row with these names, if it exists."""
        if self.table is not None and await self.rows(names):
            await self.table.delete("object_id = ?", params=[DELIMITER.join(names)])


def row_of(rows: Iterable[dict[str, Any]], names: Names, kind: str) -> dict[str, Any] | None:
    """Return the row with these names and this kind; None if there is none."""
    key = (DELIMITER.join(names), kind)
    return next((row for row in rows if (row["object_id"], row["object_type"]) == key), None)


def parse_properties(text: str | None, names: Names) -> dict[str, str]:
    """Parse the properties of a namespace.

    Raises:
        CorruptFileError: the text is not an object in JSON.
    """
    try:
        value = json.loads(text or "{}")
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise CorruptFileError(
            f"{MANIFEST}: namespace {shown(names)!r} has the metadata {text!r}; expected an object "
            f"in JSON"
        )
    return plain(value)
