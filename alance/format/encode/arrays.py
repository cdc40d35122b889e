"""Arrow arrays down to the leaves: levels and values of each column, as pages hold them.

The inverse of `layouts.fields.assemble`.

Source: file format specification, "Columns" and "Arrow to levels".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from alance.format.field import Field
    from alance.format.layouts.base import PageValues


def leaf_values(field: Field, array: pa.Array) -> dict[int, PageValues]:
    """Levels and values of each leaf column of some rows of a top-level field, by field id.

    Args:
        field: of a schema made by `Schema.from_arrow`, or of a table.
        array: the rows; its type is that of the field, or one that casts to it (dictionaries,
            views, large offsets, extension types of the same storage). Blobs of version 1 are
            their bytes; blobs of version 2 are their descriptions (`field.BLOB_V2_TYPE`).

    Returns:
        By field id, in the order of `layouts.fields.leaf_columns`. Values are views of the
        array's buffers where they can be. `num_rows` is rows times the dimensions of structural
        fixed-size lists, as pages count.

    Raises:
        InvalidInputError: nulls or text that the format cannot hold (nulls inside packed structs,
            null empty structs, text that is no JSON), or another type.
    """
    raise NotImplementedError
