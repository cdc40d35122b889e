"""Methods that create, drop, list and measure indices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from alance.base.deferred import Deferred
from alance.base.progress import Reporting
from alance.ops.read.take import as_positions
from alance.ops.version.options import CommitArguments, CommitOptions
from alance.verbs.base import Handle
from alance.versioning.backoff import MAX_RETRIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Self, Unpack

    import pyarrow as pa

    from alance.base.progress import OnProgress
    from alance.ops.index import late as index_late
    from alance.ops.index import listing as index_list
    from alance.ops.index import manage as index_manage
    from alance.ops.index import new as index_new
    from alance.ops.index.listing import IndexDescription, IndexStatistics, ListedIndex
    from alance.ops.index.texts import build as index_texts
    from alance.ops.index.texts import new as index_new_text
    from alance.ops.index.texts.new import TextIndexKind
    from alance.ops.index.values.options import (
        IndexConfig,
        ScalarIndexKind,
        ValueIndexArguments,
    )
    from alance.ops.index.vectors import build as index_vectors
    from alance.ops.index.vectors import new as index_new_vector
    from alance.ops.index.vectors.new import (
        IndexArguments,
        ScalarIndexArguments,
        VectorIndexArguments,
        VectorIndexKind,
    )
    from alance.ops.search import prewarm
    from alance.ops.search.options import Metric
else:
    index_late = Deferred("alance.ops.index.late")
    index_list = Deferred("alance.ops.index.listing")
    index_manage = Deferred("alance.ops.index.manage")
    index_new = Deferred("alance.ops.index.new")
    index_new_text = Deferred("alance.ops.index.texts.new")
    index_new_vector = Deferred("alance.ops.index.vectors.new")
    index_texts = Deferred("alance.ops.index.texts.build")
    index_vectors = Deferred("alance.ops.index.vectors.build")
    prewarm = Deferred("alance.ops.search.prewarm")


TEXT_KINDS: Final = ("INVERTED", "FTS")


class IndexVerbs(Handle):
    """Create, drop and list indices. Filters and searches use them automatically."""

    __slots__ = ()

    async def create_scalar_index(
        self,
        column: str,
        index_type: ScalarIndexKind | TextIndexKind | IndexConfig,
        name: str | None = None,
        *,
        replace: bool = True,
        train: bool = True,
        progress: OnProgress | None = None,
        **options: Unpack[ScalarIndexArguments],
    ) -> Self:
        """Create an index of the values of a column, over all rows of this version.

        - "BTREE" stores all values in order: for many distinct values, ranges, single values.
        - "BITMAP" stores the rows of each value: for at most a few thousand distinct values.
        - "LABEL_LIST" stores the rows of each list item (`array_has`, `array_has_any`,
          `array_has_all`).
        - "NGRAM" stores the rows of each sequence of three letters or digits in texts (`contains`,
          `LIKE`, `regexp_like`).
        - "FM" finds substrings of any length without reading texts (`contains`, `LIKE`).
        - "ZONEMAP" and "BLOOMFILTER" are small and rule out zones of 8192 rows: by the least and
          greatest value, or by a bloom filter of the values (`=`, `IN`).
        - "JSON" is an index of one of these kinds over the values at a `path` of JSON documents
          (`json_get_int(json_get(j, 'a'), 'b')`), all of one type: integers, numbers, texts or
          booleans.
        - "INVERTED" (or "FTS") is for searches by words: see `create_index`.

        Filters use the index here and in pylance; `scanner().explain()` names it. Rows that are
        appended later are scanned until `optimize.optimize_indices()`.

        Cost: a scan of the column; PUTs of the index's files; a commit. Memory: `memory_bytes`
        (default 256 MiB, in practice at least some 100 MiB) for the scan and the rows that are
        sorted at once, and twice that for n-grams; further rows are spilled to the local disk.
        Kinds with row sets also hold the rows of one key.

        Example:

            dataset = await dataset.create_scalar_index("kind", "BITMAP")
            assert await dataset.count_rows("kind = 'kind 0'") == 34

        Args:
            column: name or dotted path.
            index_type: a kind from the list above; or an object with `index_type` and `parameters`,
                such as pylance's `IndexConfig`.
            name: default: `{column}_idx`.
            replace: replace an index of that name on that column; False: raise an error.
            train: False makes an index that does not cover any row yet.
            progress: called with a `Progress` of each stage; True: a bar (docs/progress.md).
            options: of the commit, such as `max_retries` (attempts after the first, if other
                writers rewrote the fragments or committed first); of zones and JSON as in
                `alance.types.ValueIndexArguments`, of texts as in `TextIndexArguments`.

        Raises:
            InvalidInputError: an unknown column, a column that this kind cannot index, bad options,
                or JSON values of several types, arrays or objects at the path.
            UnsupportedError: an unknown type of index; a JSON index that tables with stable row ids
                cannot have; or a table with a deferred remap of indices (`optimize_indices`).
            AlreadyExistsError: the name is in use.
            RetryableConflictError: other writers rewrote the fragments at every attempt.
        """
        rest: dict[str, Any] = dict(options)
        of_commit = [name for name in CommitArguments.__annotations__ if name in rest]
        commit = CommitOptions(**{name: rest.pop(name) for name in of_commit})
        if isinstance(index_type, str):
            kind: str = index_type
        else:
            await self._load(index_new)
            kind, rest = index_new.kind_and_arguments(index_type, rest)
        if kind.upper() in TEXT_KINDS:
            await self._load(index_texts)
            texts = index_new_text.NewTextIndex.of(column, name, rest, replace=replace, train=train)
            with Reporting(progress):
                return self._on(await index_texts.create_text_index(self._snapshot, texts, commit))
        await self._load(index_manage)
        arguments = cast("ValueIndexArguments", rest)
        new = index_new.NewIndex(column, kind, name, replace, train, arguments)
        with Reporting(progress):
            return self._on(await index_manage.create_index(self._snapshot, new, commit))

    async def create_index(
        self,
        column: str,
        index_type: VectorIndexKind | TextIndexKind,
        name: str | None = None,
        metric: Metric = "l2",
        *,
        replace: bool = False,
        progress: OnProgress | None = None,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        max_retries: int = MAX_RETRIES,
        **options: Unpack[IndexArguments],
    ) -> Self:
        """Create an index of a column of vectors or of texts, over all rows of this version.

        Vectors are partitioned by the nearest of `num_partitions` centroids, which k-means computes
        from a sample; a search reads the partitions nearest to its query. "IVF_FLAT" stores the
        vectors themselves, "IVF_SQ" a byte per number, "IVF_RQ" `num_bits` per number, "IVF_PQ"
        `num_sub_vectors` codes. "IVF_HNSW_FLAT", "IVF_HNSW_SQ" and "IVF_HNSW_PQ" add a graph per
        partition with `m` links per row, so that a search compares only some of its rows. Null
        vectors and vectors that are not finite are not indexed. An index with PQ over fewer vectors
        than 2^`num_bits` covers no row until `optimize_indices` finds more. pylance can search and
        extend the index.

        "INVERTED" (or "FTS") is for `search_text`: a posting list for each word of a column of
        texts or lists of texts.

        Rows that are appended later are scanned until `optimize.optimize_indices()`.

        Cost: for vectors a take of the sample, k-means, a scan of the column, PUTs of the index's
        files, and a commit; for texts a scan, PUTs and a commit. Memory: for vectors about twice
        `memory_bytes`, the largest partition, and the read-ahead; with graphs also, per thread, a
        partition in float32 and some `24 * m` bytes per row of it. For texts `memory_bytes`, after
        which a partition of the index is written.

        Example:

            dataset = await dataset.create_index("vector", "IVF_FLAT", num_partitions=2)
            dataset = await dataset.create_index("text", "INVERTED")
            print([index["name"] for index in dataset.list_indices()])  # ['text_idx', 'vector_idx']

        Args:
            column: name or dotted path of fixed-size lists of float16, bfloat16, float32 or
                float64, of lists of such vectors (with "cosine"), or of texts.
            index_type: "IVF_FLAT", "IVF_SQ", "IVF_RQ", "IVF_PQ", "IVF_HNSW_FLAT", "IVF_HNSW_SQ",
                "IVF_HNSW_PQ"; "INVERTED" or "FTS".
            name: default: `{column}_idx`.
            metric: "l2", "cosine", "dot"; or "hamming" for uint8 with "IVF_FLAT".
            replace: replace an index of that name on that column; False: raise an error.
            progress: called with a `Progress` of each stage; True: a bar (docs/progress.md). A
                further attempt begins again.
            properties: recorded in the transaction.
            message: a commit message, recorded in the transaction.
            max_retries: attempts after the first, if other writers rewrote the fragments.
            num_partitions, target_partition_size: number of partitions, or rows of each.
            num_sub_vectors, num_bits: codes of a vector (IVF_PQ), and their bits (PQ, RQ, SQ).
            sample_rate, max_iters, min_gain: effort of the training.
            ivf_centroids, pq_codebook: values to use instead of training.
            m, ef_construction, max_level: shape of the graphs (IVF_HNSW_*).
            memory_bytes: bound of the memory of the build.
            base_tokenizer, language, lower_case, stem, ascii_folding: how texts become tokens.
            remove_stop_words, custom_stop_words, max_token_length: tokens that are left out.
            min_ngram_length, max_ngram_length, prefix_only: tokens of the tokenizer "ngram".
            with_position: store positions of tokens, for phrases.
            document_granularity: "row", or "list_element" for lists of texts.
            options: all of these; `alance.types.VectorIndexArguments` and `TextIndexArguments` have
                the details.

        Raises:
            InvalidInputError: a column without vectors or texts, options that do not suit it, or
                fewer vectors than partitions.
            UnsupportedError: another type of index, or a table with a deferred remap of indices
                (`optimize_indices`).
            AlreadyExistsError: the name is in use.
            RetryableConflictError: other writers rewrote the fragments at every attempt.
        """
        commit = CommitOptions(properties, message, max_retries)
        if isinstance(index_type, str) and index_type.upper() in TEXT_KINDS:
            await self._load(index_texts)
            texts = index_new_text.NewTextIndex.of(column, name, options, replace=replace)
            with Reporting(progress):
                return self._on(await index_texts.create_text_index(self._snapshot, texts, commit))
        await self._load(index_vectors)
        chosen = index_new_vector.VectorIndexOptions(**cast("VectorIndexArguments", options))
        new = index_new_vector.NewVectorIndex(column, index_type, name, metric, replace, chosen)
        with Reporting(progress):
            snapshot = await index_vectors.create_vector_index(self._snapshot, new, commit)
        return self._on(snapshot)

    async def drop_index(
        self,
        name: str,
        **commit: Unpack[CommitArguments],
    ) -> Self:
        """Drop an index of any type. Cleanup removes its files when no version needs them.

        Cost: a commit.

        Args:
            name: name of the index, as in `list_indices`.
            commit: see `alance.types.CommitArguments`.

        Raises:
            NotFoundError: no such index.
            CommitConflictError: a concurrent commit rules this one out.
        """
        await self._load(index_manage)
        after = await index_manage.drop_index(self._snapshot, name, CommitOptions(**commit))
        return self._on(after)

    def list_indices(self) -> list[ListedIndex]:
        """Return the indices of this version, an entry per segment, ordered by name.

        Each entry has `name`, `type` (`BTree`, `IVF_PQ`), `uuid`, `fields` (paths of columns),
        `version` (the version from which the segment was built), `fragment_ids` (the set of
        fragments that it covers; some may no longer exist) and `base_id`. An entry
        `__lance_mem_wal` means that the table has a MemWAL, whose rows are not read.

        Cost: no request.
        """
        return index_list.list_indices(self._snapshot)

    async def describe_indices(self) -> list[IndexDescription]:
        """Return the indices of this version, ordered by name, each with its segments.

        Cost: no request, unless the manifest lacks counts, as for `Dataset.stats`.

        Raises:
            CorruptFileError: a deletion file contradicts the format.
        """
        await self._load(index_list)
        return await index_list.describe_indices(self._snapshot)

    async def index_statistics(self, name: str) -> IndexStatistics:
        """Return counts of an index under pylance's keys: indexed and unindexed rows and fragments.

        `indices` has an entry per segment: `num_pages`, `min` and `max` of B-trees, `num_bitmaps`
        of bitmap and label indices, `num_ngrams` of n-gram indices, `num_partitions`, `total_docs`
        and `total_bwt_len` of FM indices, `num_zones` and `rows_per_zone` of zone maps,
        `num_blocks`, `number_of_items` and `probability` of bloom filters, `index_type` and `uuid`
        of others. Vector indices add `metric_type`, `num_partitions` and `partitions`, each with
        its `size` in rows, deleted rows included.

        Cost: once, a read of the page tables of B-trees, of the keys of bitmap, label and n-gram
        indices, and of the headers of other files (nothing for texts); for vectors also, per
        segment and call, up to two GETs of what is not in the last 64 KiB of a file; a GET for each
        deletion file of unknown count.

        Args:
            name: name of the index.

        Raises:
            NotFoundError: no such index.
            CorruptFileError: its files contradict the format.
        """
        await self._load(index_manage)
        return await index_manage.index_statistics(self._snapshot, name)

    async def centroids(
        self, *, index_name: str | None = None, column: str | None = None
    ) -> pa.FixedSizeListArray:
        """Return the centroids of a vector index's first segment, in the order of its partitions.

        They have the stored type. With the metric `cosine` their length is 1. `index_statistics`
        has the sizes of the partitions.

        Cost: a GET of the end of the file, once; per call another if the centroids are not in the
        last 64 KiB.

        Args:
            index_name: name of the index.
            column: instead of `index_name`: column whose first vector index is used.

        Raises:
            InvalidInputError: neither argument is set, or the index is not a vector index.
            NotFoundError: no such index, or no vector index on the column.
            CorruptFileError: its files contradict the format.
        """
        await self._load(index_manage)
        return await index_manage.centroids(self._snapshot, index_name, column)

    async def remap_row_addrs(self, addrs: object) -> pa.Array | None:
        """Translate addresses of rows from before compactions with `defer_index_remap`.

        This works until `optimize_indices` or `compact_files` has rewritten the indices.

        Cost: no request if the manifest contains the translation, or without such a compaction; one
        GET per call for a large translation, which is in a separate file.

        Args:
            addrs: values of `_rowaddr`; a list, numpy or Arrow array of integers.

        Returns:
            Current addresses in the same order, uint64: null for rows that such a compaction
                dropped, unchanged for rows that none moved. None if the table has no such
                compaction.

        Raises:
            InvalidInputError: a value is not an address.
            CorruptFileError, NotFoundError: the translation's file contradicts the format, or is
                missing.
            UnsupportedError: the translation is in a later version of the format.
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
        """Read an index into the session's caches, so that the first query does not wait for it.

        Cost: a read of all its files, in a few rounds. Entries beyond `cache_bytes` are evicted
        again.

        Args:
            name: name of the index.
            with_position: True to also read, for texts, the positions of words, which phrases need.
            index_segments: UUIDs of the segments to read; None: all.

        Raises:
            NotFoundError: no such index or segment.
            InvalidInputError: the index has no positions, or `index_segments` are not UUIDs.
            UnsupportedError: the kind of index is not cached in memory.
            CorruptFileError: a file contradicts the format.
        """
        await self._load(prewarm)
        await prewarm.prewarm_index(
            self._snapshot, name, with_position=with_position, index_segments=index_segments
        )
