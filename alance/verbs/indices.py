"""Verbs of scalar indices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alance.ops.version.commit_options import CommitOptions
from alance.verbs.base import Handle
from alance.versioning.retries import MAX_RETRIES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self


class IndexVerbs(Handle):
    """Make, drop and list indices; filters use B-trees and bitmap indices by themselves."""

    __slots__ = ()

    async def create_scalar_index(
        self,
        column: str,
        index_type: str,
        name: str | None = None,
        *,
        replace: bool = True,
        train: bool = True,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        max_retries: int = MAX_RETRIES,
    ) -> Self:
        """Make an index of a column, over all rows of this version.

        A B-tree holds all values in order: for many distinct values, ranges, points. A bitmap
        index holds the rows of each value: for some thousand distinct values at most. Filters ask
        them by themselves (`scanner().explain()` says which), here and in pylance. Rows appended
        later are found by scanning, until `optimize.optimize_indices()`.

        Cost: a scan of the column; PUTs of the index's files; a commit. Memory: 256 MiB of values
        and row numbers, more go to the local disk; of a bitmap index the rows of one value.

        Args:
            column: name or dotted path.
            index_type: "BTREE" or "BITMAP".
            name: default: `{column}_idx`.
            replace: an index of that name on that column is replaced; False: an error.
            train: False makes an index that covers no row yet.
            max_retries: attempts after the first one, where others rewrote the fragments or
                were first to make a version.

        Raises:
            InvalidInputError: an unknown column, or one whose values have no order.
            UnsupportedError: another type of index.
            AlreadyExistsError: the name is in use.
            RetryableConflictError: others rewrote the fragments at every attempt.
        """
        await self._load("alance.ops.index.manage")
        from alance.ops.index import manage as index_manage
        from alance.ops.index.new import NewIndex

        made = await index_manage.create_index(
            self._snapshot,
            NewIndex(column, index_type, name, replace, train),
            CommitOptions(properties, message, max_retries),
        )
        return type(self)(made)

    async def drop_index(
        self,
        name: str,
        *,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        max_retries: int = MAX_RETRIES,
    ) -> Self:
        """Drop an index of any type. Its files stay until no version needs them any more.

        Cost: a commit.

        Raises:
            NotFoundError: no such index.
        """
        await self._load("alance.ops.index.manage")
        from alance.ops.index import manage as index_manage

        made = await index_manage.drop_index(
            self._snapshot, name, CommitOptions(properties, message, max_retries)
        )
        return type(self)(made)

    def list_indices(self) -> list[dict[str, Any]]:
        """The indices of this version, one entry a segment, by name. Cost: nothing.

        Each has `name`, `type`, `uuid`, `fields` (paths of columns), `version` (that it was built
        from), `fragment_ids` (a set: the fragments that it covers, some may be gone) and
        `base_id`.
        """
        from alance.ops.index.listing import list_indices

        return list_indices(self._snapshot)

    async def index_statistics(self, name: str) -> dict[str, Any]:
        """What an index covers, with pylance's keys: rows and fragments indexed and not.

        `indices` has an entry for each segment: `num_pages`, `min` and `max` of B-trees,
        `num_bitmaps` of bitmap indices.

        Cost: the heads of the index's files, once; deletion files of unknown count.

        Raises:
            NotFoundError: no such index.
            CorruptFileError: its files contradict the format.
        """
        await self._load("alance.ops.index.manage")
        from alance.ops.index import manage as index_manage

        return await index_manage.index_statistics(self._snapshot, name)
