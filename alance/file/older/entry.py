"""Access to 2.0 and 0.1 files; imports their readers with the first such file.

This import would block the event loop for about 20 ms. If a manifest has such files,
`alance.ops.version.first_use` imports the readers in a thread beforehand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.file_version import FileVersion
from alance.format.v0_1.metadata import BatchContainer, footer_version

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance.file.older.v2_0 import FieldColumn
    from alance.file.open.columns import States
    from alance.format.container import Container
    from alance.format.field import Field
    from alance.format.plans import Plan


def holds_older(tail: memoryview) -> bool:
    """True if a file's last bytes are a footer of 2.0 or 0.1."""
    version = footer_version(tail)
    return version is not None and version < FileVersion.V2_1


def open_older(
    fields: Sequence[Field], columns: Mapping[int, int], container: Container, states: States
) -> Plan[list[FieldColumn]]:
    """Plan the opening of fields; fields that the file lacks are omitted.

    See `v0_1` and `v2_0`.
    """
    if isinstance(container, BatchContainer):
        from alance.file.older.v0_1 import open_batch_fields

        return open_batch_fields(fields, columns, container, states)
    from alance.file.older.v2_0 import open_fields

    return open_fields(fields, columns, container, states)
