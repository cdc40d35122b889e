"""Statistics of a scan, which are passed to a callback at its end."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import field
from typing import TYPE_CHECKING, Final, TypeAlias

from alance.base.records import dataclass
from alance.io.events.trace import RequestRecorder, recording

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Hashable, Mapping

    import pyarrow as pa

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ScanStatistics:
    """Requests, bytes and times of a scan.

    Attributes:
        iops: number of requests that were sent, and of reads of local files.
        requests: number of requested byte ranges; ranges near each other share a request.
        bytes_read: number of received bytes.
        indices_loaded: number of index segments that were opened because they were not cached.
        parts_loaded: number of index parts that were read, such as B-tree pages, bitmap row sets,
            vector partitions and posting lists.
        index_cache_hits, index_cache_misses: number of lookups of index parts in the search cache.
            A filter with a cached result makes no lookup.
        index_comparisons: number of index values that were compared with a condition or query:
            values of B-tree pages, bitmap keys, zones, vectors of partitions, postings. Comparisons
            of a cached result count again.
        all_counts: `rows` and `batches` of the result, `rounds` of requests, `retries`,
            `bytes_wasted` (received, but not requested by any caller), `cache_hits` and
            `cache_misses`.
        all_times: times in nanoseconds. `scan`: from the request for the first batch to the last
            batch, without the consumer's time. `requests`: part of it with at least one pending
            request. `threads`: work of all threads. `queue`: time that this work waited for a
            thread.
    """

    iops: int
    requests: int
    bytes_read: int
    indices_loaded: int
    parts_loaded: int
    index_comparisons: int
    index_cache_hits: int
    index_cache_misses: int
    all_counts: Mapping[str, int]
    all_times: Mapping[str, int]


NS_PER_SECOND: Final = 1_000_000_000

# First elements of the cache keys of index segments and of index parts.
INDEX_CACHE_KINDS: Final = frozenset(
    {"page table", "index keys", "vector index", "text index", "zone map", "bloom zones"}
)
PARTS: Final = frozenset({"index page", "row set", "partition", "posting list", "index part"})


@dataclass(slots=True, repr=False, eq=False)
class _IndexRecorder(RequestRecorder):
    """Recorder that also counts the lookups of index parts."""

    opened: set[Hashable] = field(default_factory=set)  # keys that were not in the cache
    # Number of cache hits (True) and misses (False).
    parts: Counter[bool] = field(default_factory=Counter)
    num_compared: int = 0

    def _compared(self, num_values: int) -> None:
        self.num_compared += num_values

    def _looked_for(self, key: Hashable, *, hit: bool) -> None:
        kind = key[0] if isinstance(key, tuple) else None
        if kind in PARTS:
            self.parts[hit] += 1
        elif kind in INDEX_CACHE_KINDS and not hit:
            self.opened.add(key)


ScanStatsCallback: TypeAlias = Callable[[ScanStatistics], object]


async def counted(
    batches: AsyncGenerator[pa.RecordBatch, None], callback: ScanStatsCallback
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Yield the batches. After the last one, pass the scan's statistics to the callback.

    The callback is not called if the scan fails or is stopped early. Its errors are logged.
    """
    recorder, num_rows, num_batches, seconds = _IndexRecorder(), 0, 0, 0.0
    async with aclosing(batches):
        while True:
            # Record each step separately, because the consumer's requests in between do not count.
            begun = time.perf_counter()
            with recording(recorder):
                batch = await anext(batches, None)
            seconds += time.perf_counter() - begun
            if batch is None:
                break
            num_rows, num_batches = num_rows + len(batch), num_batches + 1
            yield batch
    try:
        callback(_statistics(recorder, num_rows, num_batches, seconds))
    except Exception:
        _log.exception("scan_stats_callback failed")


def _statistics(
    recorder: _IndexRecorder, num_rows: int, num_batches: int, seconds: float
) -> ScanStatistics:
    totals = recorder.totals
    hits, looks = (sum(counts) for counts in zip((0, 0), *totals.hit_rates.values(), strict=True))
    return ScanStatistics(
        iops=totals.num_requests,
        requests=sum(max(1, len(event.ranges)) for event in recorder.events),
        bytes_read=totals.num_bytes,
        indices_loaded=len(recorder.opened),
        parts_loaded=recorder.parts[False],
        index_comparisons=recorder.num_compared,
        index_cache_hits=recorder.parts[True],
        index_cache_misses=recorder.parts[False],
        all_counts={
            "rows": num_rows,
            "batches": num_batches,
            "rounds": totals.rounds,
            "retries": totals.num_retries,
            "bytes_wasted": totals.num_wasted,
            "cache_hits": hits,
            "cache_misses": looks - hits,
        },
        all_times={
            "scan": round(seconds * NS_PER_SECOND),
            "requests": round(
                sum(ended - begun for begun, ended in recorder.waves) * NS_PER_SECOND
            ),
            "threads": round(sum(hop.ended - hop.begun for hop in recorder.hops) * NS_PER_SECOND),
            "queue": round(sum(hop.begun - hop.queued for hop in recorder.hops) * NS_PER_SECOND),
        },
    )
