"""Repairs of a version, applied step by step to a draft. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import field
from typing import TYPE_CHECKING

from alance.base.records import dataclass
from alance.errors import AlanceError
from alance.format.proto import copied
from alance.format.table.changes.apply_indices import SYSTEM, covered, with_coverage
from alance.format.table.fragment import Records
from alance.format.table.indices import Index
from alance.format.table.manifest import Manifest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence, Set

    from alance.format.proto import table_pb2


@dataclass(frozen=True, slots=True)
class FragmentFacts:
    """Facts read from the files of a fragment.

    Attributes:
        rows: number of rows of each column; None: columns differ, or a file cannot be read.
        deleted: number of rows in its deletion file; None: there is no such file, or it cannot be
            read.
        sizes: sizes by path of intact files that contradict the manifest.
        is_lost: True if a data file is missing, or its metadata cannot be read.
    """

    rows: int | None
    deleted: int | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    is_lost: bool = False


class Remedies:
    """Draft of a repaired version. Each step records its changes in `texts`.

    Args:
        manifest: manifest of the damaged version.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._fragments = [fragment.message for fragment in manifest.fragments]
        self._indices = list(manifest.indices)
        self._has_changed = False
        self.texts: list[str] = []
        if manifest.repaired:
            self.texts.append(f"field ids {list(manifest.repaired)}: written as they are read")

    def _say(self, text: str) -> None:
        self.texts.append(text)

    def mend_files(self, facts: Sequence[FragmentFacts]) -> None:
        """Set counts and sizes to those of the files; `facts` are in the order of the fragments."""
        for place, (record, own) in enumerate(zip(self._fragments, facts, strict=True)):
            texts: list[str] = []
            fragment = copied(record)
            if own.rows and fragment.physical_rows != own.rows:
                texts.append(f"physical_rows {fragment.physical_rows} -> {own.rows}")
                fragment.physical_rows = own.rows
            deletion = fragment.deletion_file
            if own.deleted is not None and deletion.num_deleted_rows not in (0, own.deleted):
                texts.append(f"deleted rows {deletion.num_deleted_rows} -> {own.deleted}")
                deletion.num_deleted_rows = own.deleted
            for file in fragment.files:
                if file.path in own.sizes:
                    size = own.sizes[file.path]
                    texts.append(f"bytes of {file.path!r} {file.file_size_bytes} -> {size}")
                    file.file_size_bytes = size
            if texts:
                self._fragments[place] = fragment
                self._has_changed = True
                self._say(f"fragment {fragment.id}: {', '.join(texts)}")

    def drop_lost(self, facts: Sequence[FragmentFacts]) -> None:
        """Drop fragments that have lost a data file; `facts` are in the order of fragments."""
        stay = []
        for record, own in zip(self._fragments, facts, strict=True):
            if own.is_lost:
                self._has_changed = True
                self._say(f"fragment {record.id}: dropped, a data file of it is lost")
            else:
                stay.append(record)
        self._fragments = stay

    def mend_ids(self) -> None:
        """Give new ids to fragments with a duplicate id, which indices then no longer cover."""
        counts = Counter(fragment.id for fragment in self._fragments)
        twice = {number for number, count in counts.items() if count > 1}
        if not twice:
            return
        head = self._manifest.head
        following = max(max(counts), head.max_fragment_id) + 1
        # A fragment with a deletion file keeps its id, which is in the file's name.
        keeps = {
            number: next(
                (f for f in self._fragments if f.id == number and f.HasField("deletion_file")),
                next(f for f in self._fragments if f.id == number),
            )
            for number in twice
        }
        stay, go = [], []
        for record in self._fragments:
            is_moved = record.id in twice and record is not keeps[record.id]
            if not is_moved or record.HasField("deletion_file"):
                stay.append(record)
                continue
            fragment = copied(record)
            fragment.id = following
            self._say(f"fragment {record.id}: a second one of that id becomes {following}")
            following += 1
            go.append(fragment)
        self._fragments = [*stay, *go]
        self._has_changed = True
        for place, index in enumerate(self._indices):
            ids = covered(index)
            if ids is not None and ids & twice:
                self._indices[place] = with_coverage(index, ids - twice)
                self._say(f"index {index.name!r}: no longer covers fragments {sorted(ids & twice)}")

    def mend_indices(self, unreadable: Collection[str]) -> None:
        """Drop unusable segments; let only one segment of an index cover a fragment.

        Args:
            unreadable: UUIDs, as hex digits, of segments whose files contradict their record.
        """
        head = self._manifest.head
        fields = {below.id for below in head.fields}
        highest = max([head.max_fragment_id, *(fragment.id for fragment in self._fragments)])
        useful: list[table_pb2.IndexMetadata] = []
        for message in self._indices:
            why = self._why_useless(message, fields, {index.uuid.uuid for index in useful})
            if message.uuid.uuid.hex() in unreadable:
                why = "its files are not as the manifest says"
            if why is not None:
                self._say(f"index {message.name!r}: a segment is left out, {why}")
                continue
            ids = covered(message)
            if ids is not None and (beyond := {number for number in ids if number > highest}):
                message = with_coverage(message, ids - beyond)
                self._say(f"index {message.name!r}: no longer covers fragments {sorted(beyond)}")
            if message.dataset_version > self._manifest.version:
                before, version = message.dataset_version, self._manifest.version
                message = with_coverage(message, covered(message) or ())
                message.dataset_version = version
                self._say(f"index {message.name!r}: of version {before} -> {version}")
            useful.append(message)
        self._indices = list(self._apart(useful))

    def _why_useless(
        self, message: table_pb2.IndexMetadata, fields: Set[int], seen: Set[bytes]
    ) -> str | None:
        try:
            Index.from_protobuf(message)
        except AlanceError as error:
            return str(error)
        if message.uuid.uuid in seen:
            return "another one has its UUID"
        if message.name in SYSTEM:
            return None
        if gone := set(message.fields) - fields:
            return f"fields {sorted(gone)} are not in the schema"
        if message.HasField("base_id") and message.base_id not in self._manifest.base_paths:
            return f"base path {message.base_id} is not there"
        return None

    def _apart(
        self, segments: Sequence[table_pb2.IndexMetadata]
    ) -> Iterator[table_pb2.IndexMetadata]:
        """Yield segments in order, cut so that a fragment is in only one segment of each index.

        A fragment stays with the newest segment that covers it. A segment that loses all its
        fragments is omitted.
        """
        newest = sorted(segments, key=lambda message: -message.dataset_version)
        taken: dict[str, set[int]] = {}
        remaining: dict[bytes, table_pb2.IndexMetadata | None] = {}
        for message in newest:
            ids = covered(message)
            if ids is None or message.name in SYSTEM:
                remaining[message.uuid.uuid] = message
                continue
            others = taken.setdefault(message.name, set())
            if shared := ids & others:
                text = f"index {message.name!r}: a segment no longer covers {sorted(shared)}"
                self._say(f"{text}, another one does")
                message = with_coverage(message, ids - others)
            remaining[message.uuid.uuid] = message if ids - others or not ids else None
            others |= ids
        return (own for message in segments if (own := remaining[message.uuid.uuid]) is not None)

    def manifest(self) -> Manifest:
        """Return the repaired manifest."""
        head = copied(self._manifest.head)
        ids = [below.id for below in head.fields]
        if head.HasField("max_allocated_field_id") and max(ids) > head.max_allocated_field_id:
            self._say(f"highest field id {head.max_allocated_field_id} -> {max(ids)}")
            head.max_allocated_field_id = max(ids)
        highest = max((fragment.id for fragment in self._fragments), default=0)
        if head.HasField("max_fragment_id") and highest > head.max_fragment_id:
            self._say(f"highest fragment id {head.max_fragment_id} -> {highest}")
            head.max_fragment_id = highest
        before = self._manifest
        records = Records.of(self._fragments) if self._has_changed else before.fragments.records
        others = {"transaction": before.transaction, "indices": tuple(self._indices)}
        return Manifest.of(head, before.schema, records, **others)
