"""Manifests of real tables, changed in place as no writer of today does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.format.proto import table_pb2
from alance.format.table.manifest import (
    MANIFEST_FOOTER,
    MANIFEST_MAGIC,
    SECTION_LENGTH,
    parse_manifest,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def edit(
    path: Path, change: Callable[[table_pb2.Manifest, list[table_pb2.IndexMetadata]], None]
) -> None:
    """Change the latest manifest, and its indices, in place."""
    file = min((path / "_versions").glob("*.manifest"))
    manifest = parse_manifest(memoryview(file.read_bytes()), file.name)
    message = manifest.message
    indices = [
        table_pb2.IndexMetadata.FromString(own.SerializeToString()) for own in manifest.indices
    ]
    message.ClearField("transaction_section")
    message.ClearField("index_section")
    change(message, indices)
    section = b""
    if indices:
        content = table_pb2.IndexSection(indices=indices).SerializeToString()
        section = SECTION_LENGTH.pack(len(content)) + content
        message.index_section = 0
    content = message.SerializeToString()
    file.write_bytes(
        section
        + SECTION_LENGTH.pack(len(content))
        + content
        + MANIFEST_FOOTER.pack(len(section), 0, 2, MANIFEST_MAGIC)
    )


def lose_files(index: table_pb2.IndexMetadata) -> None:
    """Make an entry that of a segment whose folder is gone, by a writer that listed no files."""
    index.uuid.uuid = bytes(range(16))
    index.files.clear()
