"""What suits each kind of store: its abilities, and the numbers by which reads are planned.

The numbers were measured with servers on one machine and simulated latencies. Each has its reason
beside it. A store may be given another profile.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal, TypeAlias

from alance.records import dataclass

Kind: TypeAlias = Literal["memory", "local", "s3", "gcs", "azure", "http"]

KIB: Final = 1 << 10
MIB: Final = 1 << 20
UPLOAD_PART_BYTES: Final = 8 * MIB  # S3 wants 5 at least; 10 000 such parts are 84 GB


@dataclass(frozen=True, slots=True)
class StoreProfile:
    """Abilities of a kind of store, and how to plan reads from it.

    Attributes:
        kind: the kind of store.
        take_gap: bytes that may be read in vain to save a request of a take; fewer of a store
            that has shown itself slow (`io/reading/speed.py`).
        scan_gap: the same for scans and metadata, where neighbours are wanted soon anyway.
        max_request_bytes: larger reads are split into requests of this size.
        max_requests: requests in flight.
        group_size: small ranges that one call to the store may hold.
        group_range_bytes: a range up to this size is small.
        is_remote: a request costs milliseconds, and one that has failed may still take effect.
        answers_now: what memory or the page cache holds is had without waiting.
        shares_calls: one call may hold any number of ranges, and is one request.
        heeds_conditions: its protocol has had conditional puts since its beginning.
        is_plain_server: takes no uploads in parts, and may list nothing.
        has_suffix_ranges: the last bytes of an object of unknown size cost one request.
        lists_in_order: listings are sorted by name and can start after one.
        part_bytes: of the parts of an upload; an object up to this size is one PUT.
        upload_buffer_bytes: what an upload may hold in memory.
        latency_s: of a request, about; above a millisecond a scan saves rounds by reading more.
        span_bytes: that a scan asks for at once.
        ahead_bytes: that a scan reads ahead of its consumer at most.
    """

    kind: Kind
    take_gap: int
    scan_gap: int
    max_request_bytes: int
    max_requests: int
    group_size: int
    group_range_bytes: int
    is_remote: bool = True
    answers_now: bool = False
    shares_calls: bool = False
    heeds_conditions: bool = False
    is_plain_server: bool = False
    has_suffix_ranges: bool = True
    lists_in_order: bool = True
    part_bytes: int = UPLOAD_PART_BYTES
    upload_buffer_bytes: int = 64 * MIB  # six parts under way, one in line, one being filled
    latency_s: float = 0.0
    span_bytes: int = 8 * MIB  # latency is microseconds: what one pool job decodes
    ahead_bytes: int = 32 * MIB  # a disk is never far: more would only hold memory


MEMORY: Final = StoreProfile(
    kind="memory",
    take_gap=0,  # a read is a slice: nothing to save
    scan_gap=0,
    max_request_bytes=1 << 40,  # never split
    max_requests=1 << 16,  # done before the call returns
    group_size=1024,
    group_range_bytes=1 << 40,
    is_remote=False,
    answers_now=True,
    heeds_conditions=True,
)

LOCAL: Final = StoreProfile(
    kind="local",
    take_gap=16 * KIB,  # a hot pread is 3 us, the memory bus 7 GB/s: they break even at 20 KiB
    scan_gap=64 * KIB,  # cold disks read ahead by more than this
    max_request_bytes=8 * MIB,  # 4 to 16 reads of 8 MiB saturate a disk
    max_requests=16,  # pool jobs; 32 were not faster
    group_size=256,  # a hop to the pool is 50 to 150 us, a read in it 3 us
    group_range_bytes=MIB,
    is_remote=False,
    answers_now=True,
    shares_calls=True,  # among its threads
    heeds_conditions=True,
)

_REMOTE_TAKE_GAP: Final = 128 * KIB  # a request costs the CPU of 80 to 180 KiB of body
_REMOTE_SCAN_GAP: Final = MIB  # 30 ms to the first byte x 60 MB/s of a stream is 1.8 MB
_REMOTE_REQUEST: Final = 8 * MIB  # 8 to 16 MiB once the connections are busy; GETs are billed
_REMOTE_REQUESTS: Final = 128  # beyond it S3 gains little, and GCS and Azure lose
_S3_REQUESTS: Final = 384  # a take of 376 requests at 30 ms: 106 ms with 256 at once, 85 with 384
_REMOTE_GROUP: Final = 10  # obstore sends ten ranges of a call at once; the eleventh would wait
_REMOTE_GROUP_RANGE: Final = (
    256 * KIB
)  # then the crossing that a group saves costs little of the whole

S3: Final = StoreProfile(
    kind="s3",
    take_gap=_REMOTE_TAKE_GAP,
    scan_gap=_REMOTE_SCAN_GAP,
    max_request_bytes=_REMOTE_REQUEST,
    max_requests=_S3_REQUESTS,
    group_size=_REMOTE_GROUP,
    group_range_bytes=_REMOTE_GROUP_RANGE,
    latency_s=0.03,
    span_bytes=16 * MIB,  # about 1 MiB a column of 16: bandwidth over latency
    ahead_bytes=128 * MIB,  # 100 ms at 1.3 GB/s, the most that was seen of a store
)

# Directory buckets: listings have neither order nor a place to start after.
S3_EXPRESS: Final = replace(S3, lists_in_order=False)

GCS: Final = replace(S3, kind="gcs", max_requests=_REMOTE_REQUESTS, heeds_conditions=True)

# Suffix ranges are not in Azure's protocol: the size must be known or asked for.
AZURE: Final = replace(GCS, kind="azure", has_suffix_ranges=False)

# One plain server is behind it, not a cloud; WebDAV, where it lists at all, has no order.
HTTP: Final = replace(S3, kind="http", max_requests=32, is_plain_server=True, lists_in_order=False)

OBSTORE_MEMORY: Final = StoreProfile(
    kind="memory",
    take_gap=4 * KIB,  # a crossing for each group, and a copy of nothing
    scan_gap=64 * KIB,
    max_request_bytes=1 << 40,
    max_requests=64,
    group_size=_REMOTE_GROUP,
    group_range_bytes=1 << 40,
    is_remote=False,
    heeds_conditions=True,
)
