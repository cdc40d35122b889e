"""Profiles of the kinds of stores: their abilities, and the parameters for planning reads.

The numbers were measured with servers on one machine and simulated latencies. The reason for each
is beside it. A store can be opened with a profile other than that of its kind.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal, TypeAlias

from alance.base.records import dataclass
from alance.io.stores.s3_clouds import S3_CLOUDS

Kind: TypeAlias = Literal[
    "memory", "local", "s3", "gcs", "azure", "http", "hf", "fsspec", "oss", "cos", "tos"
]

KIB: Final = 1 << 10
MIB: Final = 1 << 20
UPLOAD_PART_BYTES: Final = 8 * MIB  # S3 requires 5 MiB; 10 000 such parts are 84 GB


@dataclass(frozen=True, slots=True)
class StoreProfile:
    """Abilities of a kind of store, and the parameters for planning reads from it.

    Attributes:
        kind: the kind of store.
        take_gap: bytes; widest gap that a take reads over to save a request. Narrower for a store
            that was measured to be slow (`io/reading/speed.py`).
        scan_gap: the same for scans and metadata, whose gaps are usually read soon anyway.
        max_request_bytes: larger reads are split into requests of this size.
        max_requests: upper bound of requests under way.
        group_size: maximum number of small ranges in one call to the store.
        group_range_bytes: upper bound of the size of a small range.
        is_remote: True if a request costs milliseconds, and a failed one may still take effect.
        answers_now: True if bytes in memory or in the page cache can be read without waiting.
        shares_calls: True if a call may have any number of ranges, and is one request.
        heeds_conditions: True if the cloud itself has conditional puts; other servers may not.
        is_plain_server: True if it has no multipart uploads, and may be unable to list.
        has_suffix_ranges: True if the last bytes of an object of unknown size cost one request.
        lists_in_order: True if listings are sorted by name and can start after a name.
        part_bytes: size of the parts of an upload; an object up to this size is one PUT.
        upload_buffer_bytes: upper bound of the bytes that an upload holds in memory.
        latency_s: approximate seconds per request; above a millisecond, a scan reads more at once
            to save rounds.
        span_bytes: bytes that a scan requests at once.
        ahead_bytes: upper bound of the bytes that a scan reads ahead of its consumer.
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
    upload_buffer_bytes: int = 64 * MIB  # six parts under way, one waiting, one being filled
    latency_s: float = 0.0
    span_bytes: int = 8 * MIB  # a decode job's share, because latency is only microseconds
    ahead_bytes: int = 32 * MIB  # a disk answers quickly: more would only use memory


MEMORY: Final = StoreProfile(
    kind="memory",
    take_gap=0,  # a read is a slice: nothing to save
    scan_gap=0,
    max_request_bytes=1 << 40,  # never split
    max_requests=1 << 16,  # finished before the call returns
    group_size=1024,
    group_range_bytes=1 << 40,
    is_remote=False,
    answers_now=True,
    heeds_conditions=True,
)

LOCAL: Final = StoreProfile(
    kind="local",
    take_gap=4 * KIB,  # break-even is 2 to 8 KiB, for values in the page cache
    scan_gap=64 * KIB,  # cold disks read ahead by more than this
    max_request_bytes=8 * MIB,  # 4 to 16 reads of 8 MiB saturate a disk
    max_requests=16,  # pool jobs; 32 were not faster
    group_size=256,  # a hop to the pool is 50 to 150 us, a read in it 3 us
    group_range_bytes=MIB,
    is_remote=False,
    answers_now=True,
    shares_calls=True,  # divided among its threads
    heeds_conditions=True,
)

_REMOTE_TAKE_GAP: Final = 128 * KIB  # a request costs the CPU of 80 to 180 KiB of body
_REMOTE_SCAN_GAP: Final = MIB  # 30 ms to the first byte x 60 MB/s of a stream are 1.8 MB
_REMOTE_REQUEST: Final = 8 * MIB  # 8 to 16 MiB once the connections are busy; GETs are billed
_REMOTE_REQUESTS: Final = 128  # above it S3 gains little, and GCS and Azure become slower
_S3_REQUESTS: Final = 384  # 376 requests of a take at 30 ms: 106 ms with 256 at once, 85 with 384
_REMOTE_GROUP: Final = 10  # obstore sends ten ranges of a call at once; the eleventh would wait
# For larger ranges, the call that a group saves is a small part of the cost.
_REMOTE_GROUP_RANGE: Final = 256 * KIB

S3: Final = StoreProfile(
    kind="s3",
    take_gap=_REMOTE_TAKE_GAP,
    scan_gap=_REMOTE_SCAN_GAP,
    max_request_bytes=_REMOTE_REQUEST,
    max_requests=_S3_REQUESTS,
    group_size=_REMOTE_GROUP,
    group_range_bytes=_REMOTE_GROUP_RANGE,
    latency_s=0.03,
    span_bytes=16 * MIB,  # about 1 MiB per column of 16: bandwidth times latency
    ahead_bytes=128 * MIB,  # 100 ms at 1.3 GB/s, the most that was measured
    heeds_conditions=True,  # AWS has conditional puts in all regions since 2024
)

# Directory buckets: listings have no order and cannot start after a name. Also for Outposts.
S3_EXPRESS: Final = replace(S3, lists_in_order=False, heeds_conditions=False)

# Clouds with S3's protocol. Whether they obey conditional puts, each process tests once.
S3_ALIKE: Final = {
    kind: replace(S3, kind=kind, max_requests=_REMOTE_REQUESTS, heeds_conditions=False)
    for kind in S3_CLOUDS
}

GCS: Final = replace(S3, kind="gcs", max_requests=_REMOTE_REQUESTS)

# Azure's protocol has no suffix ranges: the size must be known, or costs a HEAD request.
AZURE: Final = replace(GCS, kind="azure", has_suffix_ranges=False)

# A plain server, not a cloud, with few connections; listings of WebDAV have no order.
HTTP: Final = replace(
    S3,
    kind="http",
    max_requests=32,
    is_plain_server=True,
    lists_in_order=False,
    heeds_conditions=False,
)

# File systems of fsspec have 16 threads, or a pool of connections, of aiohttp's 100 as a rule.
FSSPEC: Final = replace(S3, kind="fsspec", max_requests=32, has_suffix_ranges=False)

# The Hub's file system blocks a thread for each request.
HUB: Final = replace(FSSPEC, kind="hf", max_requests=16)

OBSTORE_MEMORY: Final = StoreProfile(
    kind="memory",
    take_gap=4 * KIB,  # each group costs a call into the library; nothing is copied
    scan_gap=64 * KIB,
    max_request_bytes=1 << 40,
    max_requests=64,
    group_size=_REMOTE_GROUP,
    group_range_bytes=1 << 40,
    is_remote=False,
    heeds_conditions=True,
)
