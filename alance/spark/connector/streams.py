"""Streams of the connector, on the driver: answers requests for the next offset and for tasks."""

from __future__ import annotations

import base64
import json
import pickle
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyspark import cloudpickle
from pyspark.sql.types import StructType

from alance.spark.connector.work import PartitionWork
from alance.spark.following import Limit, Offset, StreamFollower, filtered
from alance.spark.options import for_cores
from alance.spark.types import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alance.spark.options import StreamOptions
    from alance.spark.source import AlanceSource

FOLLOWED_TABLES: Final = 16  # followed tables whose latest manifests are cached


class Streams:
    """Handler of requests about streams, which have the stream's state; it only caches tables."""

    def __init__(self) -> None:
        self._followers: OrderedDict[bytes, StreamFollower] = OrderedDict()

    async def answer(self, request: Mapping[str, Any]) -> object:
        """Answer a request whose verb begins with `stream.`, as JSON."""
        kind: type[AlanceSource] = cloudpickle.loads(request["source"])
        texts = request["options"]
        options = for_cores(kind(texts).stream_options(), texts, request["parallelism"])
        verb = request["verb"].removeprefix("stream.")
        if verb == "limit":
            limit = Limit.of(options)
            return {} if limit is None else {limit.unit: limit.most}
        follower = self._follower(options)
        if verb == "latest":
            return {"version": await follower.latest()}
        if verb == "initial":
            return {"offset": (await follower.initial()).text()}
        start = Offset.of(json.loads(request["start"]))
        if verb == "next":
            limit = Limit.of(options) if request["limited"] else None
            return {"offset": (await follower.next(start, limit, request.get("target"))).text()}
        return await _planned(request, follower, start)

    def _follower(self, options: StreamOptions) -> StreamFollower:
        key = pickle.dumps(options)
        follower = self._followers.setdefault(key, StreamFollower(options))
        self._followers.move_to_end(key)
        while len(self._followers) > FOLLOWED_TABLES:
            self._followers.popitem(last=False)
        return follower


async def _planned(request: Mapping[str, Any], follower: StreamFollower, start: Offset) -> object:
    """Plan the tasks of a batch, by version."""
    columns = arrow_schema(StructType.fromJson(json.loads(request["schema"])))
    end, names = Offset.of(json.loads(request["end"])), tuple(columns.names)
    versions = []
    for part in await follower.parts(start, end, names):
        options = replace(follower.options, filter=filtered(follower.options, part.condition))
        work = PartitionWork(
            part.version,
            options,
            columns,
            part.columns.names,
            True,
            None,
            columns,
            across=part.columns,
        )
        pieces = [_text(pickle.dumps(rows.pieces)) for rows in part.rows]
        versions.append({"work": _text(work.dumps()), "partitions": pieces})
    return {"versions": versions}


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
