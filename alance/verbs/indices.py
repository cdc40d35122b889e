"""Verbs of indices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from alance.deferred import Deferred
from alance.errors import InvalidInputError
from alance.ops.read.positions import as_positions
from alance.ops.version.options import CommitArguments, CommitOptions
from alance.verbs.base import Handle
from alance.versioning.backoff import MAX_RETRIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Self, Unpack

    import pyarrow as pa

    from alance.ops.index import late as index_late
    from alance.ops.index import listing as index_list
    from alance.ops.index import manage as index_manage
    from alance.ops.index import new as index_new
    from alance.ops.index import new_text as index_new_text
    from alance.ops.index import new_vector as index_new_vector
    from alance.ops.index import texts as index_texts
    from alance.ops.index import vectors as index_vectors
    from alance.ops.index.listing import IndexDescription
    from alance.ops.index.new_vector import (
        IndexArguments,
        ScalarIndexArguments,
        VectorIndexArguments,
    )
    from alance.ops.index.train import IndexProgress
    from alance.ops.index.value_options import IndexConfig, ValueIndexArguments
    from alance.ops.search import prewarm
else:
    index_late = Deferred("alance.ops.index.late")
    index_list = Deferred("alance.ops.index.listing")
    index_manage = Deferred("alance.ops.index.manage")
    index_new = Deferred("alance.ops.index.new")
    index_new_text = Deferred("alance.ops.index.new_text")
    index_new_vector = Deferred("alance.ops.index.new_vector")
    index_texts = Deferred("alance.ops.index.texts")
    index_vectors = Deferred("alance.ops.index.vectors")
    prewarm = Deferred("alance.ops.search.prewarm")


TEXT_KINDS: Final = ("INVERTED", "FTS")


class IndexVerbs(Handle):
    """Make, drop and list indices; filters use those of scalars by themselves."""

    __slots__ = ()

    async def create_scalar_index(
        self,
        column: str,
        index_type: str | IndexConfig,
        name: str | None = None,
        *,
        replace: bool = True,
        train: bool = True,
        **options: Unpack[ScalarIndexArguments],
    ) -> Self:
        """Make an index of a column, over all rows of this version.

        A B-tree holds all values in order: for many distinct values, ranges, points. A bitmap
        index holds the rows of each value: for some thousand distinct values at most. A label
        index does so for the items of lists (`array_has`, `array_has_any`, `array_has_all`), an
        n-gram index for each three letters or digits of texts (`contains`, `LIKE`, `regexp_like`).
        Zone maps and bloom filters are small, and rule out zones of 8192 rows: by their least and
        greatest value, by the values that they have (`=`, `IN`). "JSON" is an index of one of these
        kinds of the values at a `path` of JSON documents (`json_get_int(json_get(j, 'a'), 'b')`),
        which are of one type: whole numbers, numbers, texts or booleans. Filters ask them by
        themselves (`scanner().explain()` says which), here and in pylance. Rows appended later
        are found by scanning, until `optimize.optimize_indices()`. "INVERTED" (or "FTS") is of
        texts, for searches by words: see `create_index`.

        Cost: a scan of the column; PUTs of the index's files; a commit. Memory: `memory_bytes`
        (256 MiB), but at least some 100 MiB, for the scan and the rows sorted at once, and twice as
        much for n-grams; other rows go to the local disk. Indices with row sets also hold the rows
        of one key.

        Args:
            column: name or dotted path.
            index_type: "BTREE", "BITMAP", "LABEL_LIST", "NGRAM", "ZONEMAP", "BLOOMFILTER",
                "JSON"; "INVERTED" or "FTS". Or what has an `index_type` and `parameters`, as
                pylance's `IndexConfig`.
            name: default: `{column}_idx`.
            replace: an index of that name on that column is replaced; False: an error.
            train: False makes an index that covers no row yet.
            options: of the commit, such as `max_retries`: attempts after the first one, where
                others rewrote the fragments or were first to make a version; of zones and of
                JSON see `alance.types.ValueIndexArguments`, of texts `TextIndexArguments`.

        Raises:
            InvalidInputError: an unknown column, or one that such an index cannot be of; options
                that make no sense; JSON values of several types, arrays or objects at the path.
            UnsupportedError: another type of index.
            AlreadyExistsError: the name is in use.
            RetryableConflictError: others rewrote the fragments at every attempt.
        """
        left: dict[str, Any] = dict(options)
        of_commit = [name for name in CommitArguments.__annotations__ if name in left]
        commit = CommitOptions(**{name: left.pop(name) for name in of_commit})
        if not isinstance(index_type, str):
            await self._load(index_new)
            index_type, left = index_new.kind_and_arguments(index_type, left)
        if index_type.upper() in TEXT_KINDS:
            await self._load(index_texts)
            texts = index_new_text.NewTextIndex.of(column, name, left, replace=replace, train=train)
            return self._on(await index_texts.create_text_index(self._snapshot, texts, commit))
        await self._load(index_manage)
        arguments = cast("ValueIndexArguments", left)
        new = index_new.NewIndex(column, index_type, name, replace, train, arguments)
        return self._on(await index_manage.create_index(self._snapshot, new, commit))

    async def create_index(
        self,
        column: str,
        index_type: str,
        name: str | None = None,
        metric: str = "l2",
        *,
        replace: bool = False,
        progress: Callable[[IndexProgress], object] | None = None,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        max_retries: int = MAX_RETRIES,
        **options: Unpack[IndexArguments],
    ) -> Self:
        """Make an index of a column of vectors or of texts, over all rows of this version.

        The vectors are parted by the nearest of `num_partitions` centroids, which k-means finds
        in a sample; a search looks at the partitions nearest to its query. "IVF_FLAT" has the
        vectors themselves, "IVF_SQ" a byte for each number, "IVF_RQ" `num_bits` for each, "IVF_PQ"
        `num_sub_vectors` codes; "IVF_HNSW_FLAT", "IVF_HNSW_SQ" and "IVF_HNSW_PQ" have graphs of the
        rows of a partition besides, of `m` links, so that a search compares some of these rows
        alone. Rows without a vector, or with one that is not finite, are in no index. pylance
        searches and extends it. Rows appended later are in it after `optimize.optimize_indices()`.

        "INVERTED" (or "FTS") is of texts, or lists of texts: of each word the rows that have it,
        for `search_text`. Its cost is a scan of the column, PUTs of its files and a commit; its
        memory `memory_bytes`, after which a partition of the index is written.

        Cost: a take of the sample, k-means, a scan of the column, PUTs of the index's files, a
        commit. Memory: `memory_bytes` about twice, the largest partition, what is read ahead;
        with graphs for each thread a partition in float32, and some 24 m bytes a row of it.

        Args:
            column: name or dotted path; fixed-size lists of float16, bfloat16, float32 or float64,
                or lists of such, by "cosine"; texts.
            index_type: "IVF_FLAT", "IVF_SQ", "IVF_RQ", "IVF_PQ", "IVF_HNSW_FLAT", "IVF_HNSW_SQ",
                "IVF_HNSW_PQ"; "INVERTED" or "FTS".
            name: default: `{column}_idx`.
            metric: "l2", "cosine", "dot"; or "hamming" of uint8 by "IVF_FLAT".
            replace: an index of that name on that column is replaced; False: an error.
            progress: called with an `alance.types.IndexProgress` after each part of the work, of
                indices of vectors; an attempt after the first one begins anew.
            properties: noted in the transaction; message: a commit message, noted there too.
            max_retries: attempts after the first one, where others rewrote the fragments.
            options: see `alance.types.VectorIndexArguments` and `TextIndexArguments`.

        Raises:
            InvalidInputError: a column without vectors or texts, or options that do not suit it;
                `progress` of texts.
            UnsupportedError: another type of index.
            AlreadyExistsError: the name is in use.
            RetryableConflictError: others rewrote the fragments at every attempt.
        """
        commit = CommitOptions(properties, message, max_retries)
        if isinstance(index_type, str) and index_type.upper() in TEXT_KINDS:
            if progress is not None:
                raise InvalidInputError("progress: is told of indices of vectors alone")
            await self._load(index_texts)
            texts = index_new_text.NewTextIndex.of(column, name, options, replace=replace)
            return self._on(await index_texts.create_text_index(self._snapshot, texts, commit))
        await self._load(index_vectors)
        chosen = index_new_vector.VectorIndexOptions(**cast("VectorIndexArguments", options))
        snapshot = await index_vectors.create_vector_index(
            self._snapshot,
            index_new_vector.NewVectorIndex(column, index_type, name, metric, replace, chosen),
            commit,
            progress,
        )
        return self._on(snapshot)

    async def drop_index(
        self,
        name: str,
        **commit: Unpack[CommitArguments],
    ) -> Self:
        """Drop an index of any type. Its files stay until no version needs them any more.

        Cost: a commit.

        Raises:
            NotFoundError: no such index.
        """
        await self._load(index_manage)
        after = await index_manage.drop_index(self._snapshot, name, CommitOptions(**commit))
        return self._on(after)

    def list_indices(self) -> list[dict[str, Any]]:
        """The indices of this version, one entry a segment, by name. Cost: nothing.

        Each has `name`, `type` (`BTree`, `IVF_PQ`), `uuid`, `fields` (paths of columns), `version`
        (that it was built from), `fragment_ids` (a set: the fragments that it covers, some may be
        gone) and `base_id`. An entry `__lance_mem_wal` means that the table has a MemWAL, whose
        rows are not read.
        """
        return index_list.list_indices(self._snapshot)

    async def describe_indices(self) -> list[IndexDescription]:
        """The indices of this version, by name, each with its segments.

        Cost: nothing but deletion files of unknown count.
        """
        await self._load(index_list)
        return await index_list.describe_indices(self._snapshot)

    async def index_statistics(self, name: str) -> dict[str, Any]:
        """What an index covers, with pylance's keys: rows and fragments indexed and not.

        `indices` has an entry for each segment: `num_pages`, `min` and `max` of B-trees,
        `num_bitmaps` of bitmap and label indices, `num_ngrams` of n-gram indices, `num_zones` and
        `rows_per_zone` of zone maps, `num_blocks`, `number_of_items` and `probability` of bloom
        filters, `index_type` and `uuid` of others; of vectors also `metric_type`, `num_partitions`
        and `partitions`, each with its `size` in rows, deleted ones counted in.

        Cost: the heads of the index's files, once; deletion files of unknown count.

        Raises:
            NotFoundError: no such index.
            CorruptFileError: its files contradict the format.
        """
        await self._load(index_manage)
        return await index_manage.index_statistics(self._snapshot, name)

    async def centroids(
        self, *, index_name: str | None = None, column: str | None = None
    ) -> pa.FixedSizeListArray:
        """The centroids of a vector index, in the order of its partitions.

        They are those of the first segment, in the type that they are stored in. With the metric
        `cosine` they have length one. `index_statistics` has the sizes of the partitions.

        Cost: one or two GETs.

        Args:
            index_name: the index.
            column: instead of a name: the first vector index on this column.

        Raises:
            InvalidInputError: neither is given, or the index is not a vector index.
            NotFoundError: no such index.
            CorruptFileError: its files contradict the format.
        """
        await self._load(index_manage)
        return await index_manage.centroids(self._snapshot, index_name, column)

    async def remap_row_addrs(self, addrs: object) -> pa.Array | None:
        """The current addresses of rows that compactions with `defer_index_remap` moved.

        This works until `optimize_indices` or `compact_files` has rewritten the indices.

        Args:
            addrs: as `_rowaddr` gave them; a list, numpy or Arrow array of integers.

        Returns:
            Addresses in the same order, uint64: null for rows that such a compaction dropped, and
            unchanged for rows that none moved. None: there is no such compaction.

        Raises:
            InvalidInputError: values that are not addresses.
        """
        await self._load(index_late)
        return await index_late.remap(self._snapshot, as_positions(addrs, "addrs"))

    async def prewarm_index(
        self,
        name: str,
        *,
        with_position: bool = False,
        index_segments: Iterable[str] | None = None,
    ) -> None:
        """Read an index into the session's caches, so that the first to ask it does not wait.

        Cost: all of its files, in a few rounds. What does not fit into `cache_bytes` is forgotten
        again.

        Args:
            with_position: of texts, the places of words as well, which phrases need.
            index_segments: UUIDs of the segments to read; None: all.

        Raises:
            NotFoundError: no such index or segment.
            InvalidInputError: positions that the index has not.
            UnsupportedError: a kind of index that is not kept in memory.
            CorruptFileError: files that contradict the format.
        """
        await self._load(prewarm)
        await prewarm.prewarm_index(
            self._snapshot, name, with_position=with_position, index_segments=index_segments
        )
