"""Notes of the finished files of a backfill, by which a later run continues."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from alance.base.records import dataclass
from alance.distributed.writing import ColumnBackfill, get_object, put_once

if TYPE_CHECKING:
    from typing import Unpack

    from alance.datasets import Dataset
    from alance.fragment import DatasetFragment
    from alance.session import OpenArguments


@dataclass(frozen=True, slots=True)
class BackfillNotes:
    """A backfill whose finished files are noted in a folder. Can be pickled if its transforms can.

    The folder is never removed. Notes of other expressions, or of a function whose results have
    another schema, are ignored; a function that computes other values needs another folder.

    Attributes:
        columns: the new columns.
        folder: URI of the folder; None: nothing is noted.
    """

    columns: ColumnBackfill
    folder: str | None = None

    async def recall(
        self,
        dataset: Dataset,
        done: dict[int, tuple[str, bytes]],
        **place: Unpack[OpenArguments],
    ) -> int:
        """Add the noted files of a version's fragments to `done`. Returns the number of notes.

        Cost: a GET per fragment that is not in `done`.

        Args:
            dataset: the version that is extended.
            done: source and record of the new file by fragment id; see `ColumnBackfill.execute`.
            place: `storage_options` and `session`, as for `dataset`.

        Raises:
            StoreError: the store failed.
        """
        if self.folder is None:
            return 0
        count = 0
        for fragment in self.remaining(dataset, done):
            number, source = fragment.fragment_id, ColumnBackfill.source(fragment)
            record = await get_object(self._place(number, source), **place)
            if record is not None:
                done[number] = (source, record)
                count += 1
        return count

    @staticmethod
    def remaining(dataset: Dataset, done: Mapping[int, tuple[str, bytes]]) -> list[DatasetFragment]:
        """Return the fragments of a version that have no file in `done`. No request.

        Args:
            dataset: the version that is extended.
            done: see `recall`.
        """
        return [
            fragment
            for fragment in dataset.fragments
            if done.get(fragment.fragment_id, ("", b""))[0] != ColumnBackfill.source(fragment)
        ]

    async def execute(
        self, fragment: DatasetFragment, **place: Unpack[OpenArguments]
    ) -> tuple[int, str, bytes]:
        """Write and note the new file of a fragment. Returns the id of the fragment, for `done`.

        If another attempt of the task was first, the file of that attempt is returned.

        Cost: see `ColumnBackfill.execute`; a PUT for the note.

        Args:
            fragment: fragment of the version that is extended.
            place: `storage_options` and `session`, as for `dataset`.

        Raises:
            InvalidInputError: a value does not fit; the file is removed.
            StoreError: the store failed.
        """
        source, record = await self.columns.execute(fragment)
        number = fragment.fragment_id
        if self.folder is not None:
            record = await put_once(self._place(number, source), record, **place)
        return number, source, record

    def _place(self, number: int, source: str) -> str:
        transforms = self.columns.transforms
        if isinstance(transforms, Mapping):
            key = repr(sorted(transforms.items()))
        else:
            key = str(getattr(transforms, "output_schema", transforms))
        name = hashlib.sha256(f"{source}|{key}".encode()).hexdigest()[:24]
        return f"{(self.folder or '').rstrip('/')}/{number}-{name}"
