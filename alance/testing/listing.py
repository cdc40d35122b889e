"""Listings of the lab: a bucket's keys in order, in pages, with folders folded."""

from __future__ import annotations

import bisect
import html
import time
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

from alance.testing.messages import xml
from alance.testing.objects import XMLNS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alance.testing.messages import Answer, Request
    from alance.testing.objects import Blob, Bucket

PAGE: Final = 1000  # entries at most, as S3 has it
LAST: Final = "\U0010ffff"  # sorts behind whatever a key goes on with


def entries(
    bucket: Bucket, prefix: str, delimiter: str, after: str
) -> Iterator[tuple[str, Blob | None]]:
    """Objects and, without a blob, common prefixes; in order, all greater than `after`.

    Args:
        delimiter: keys that have it behind the prefix are folded into one entry; "": none are.
    """
    keys = bucket.keys
    at = max(bisect.bisect_left(keys, prefix), bisect.bisect_right(keys, after) if after else 0)
    if delimiter and after.endswith(delimiter):
        at = max(at, bisect.bisect_left(keys, after + LAST))
    while at < len(keys) and keys[at].startswith(prefix):
        key = keys[at]
        cut = key.find(delimiter, len(prefix)) if delimiter else -1
        if cut < 0:
            yield key, bucket.blobs[key]
            at += 1
        else:
            group = key[: cut + len(delimiter)]
            yield group, None
            at = bisect.bisect_left(keys, group + LAST, at)


def list_objects(bucket: Bucket, req: Request) -> Answer:
    """ListObjectsV2.

    Raises:
        ValueError: `max-keys` is no number.
    """
    query = req.query
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    limit = min(PAGE, int(query.get("max-keys", PAGE)))
    after = unquote(query.get("continuation-token", "")) or query.get("start-after", "")
    is_url = query.get("encoding-type") == "url"

    def encode(text: str) -> str:
        return quote(text) if is_url else html.escape(text)

    out: list[str] = []
    last, token = "", ""
    for name, blob in entries(bucket, prefix, delimiter, after):
        if len(out) >= limit:
            token = f"<NextContinuationToken>{quote(last, safe='')}</NextContinuationToken>"
            break
        out.append(_entry(encode(name), blob))
        last = name
    req.record["listed"] = len(out)
    req.record["prefix"] = prefix
    return xml(
        f"<ListBucketResult {XMLNS}><Name>{html.escape(req.bucket)}</Name>"
        f"<Prefix>{encode(prefix)}</Prefix><KeyCount>{len(out)}</KeyCount>"
        f"<MaxKeys>{limit}</MaxKeys><IsTruncated>{'true' if token else 'false'}</IsTruncated>"
        f"{token}{''.join(out)}</ListBucketResult>"
    )


def unending(answer: Answer, req: Request, *, is_hollow: bool) -> Answer:
    """A page of a listing that says that another one follows: the same again, or an empty one."""
    query = req.query
    again = query.get("continuation-token", "") or quote(query.get("start-after", "") or "\0")
    token = quote(LAST) if is_hollow else again
    more = (
        "<IsTruncated>true</IsTruncated>"
        f"<NextContinuationToken>{quote(unquote(token), safe='')}</NextContinuationToken>"
    )
    answer.body = answer.body.replace(b"<IsTruncated>false</IsTruncated>", more.encode())
    return answer


def _entry(name: str, blob: Blob | None) -> str:
    if blob is None:
        return f"<CommonPrefixes><Prefix>{name}</Prefix></CommonPrefixes>"
    when = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(blob.mtime))
    return (
        f"<Contents><Key>{name}</Key><LastModified>{when}</LastModified>"
        f"<ETag>{html.escape(blob.etag)}</ETag><Size>{blob.size}</Size>"
        "<StorageClass>STANDARD</StorageClass></Contents>"
    )
