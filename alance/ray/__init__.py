"""Lance tables in Ray: datasets of Ray Data, and jobs whose tasks Ray runs.

    import alance.ray

    frames = alance.ray.read_table("s3://bucket/frames", ["id", "jpeg"], filter="camera = 3")
    alance.ray.write_table(frames.map_batches(decode), "s3://bucket/decoded")
    alance.ray.map_columns("s3://bucket/decoded", {"area": "width * height"})

All functions block, as Ray's own do. Workers get the `storage_options` of a call with their tasks,
and without any use the credentials of their environment. Every node needs alance and access to the
table. See docs/ray.md.
"""

from alance.base.extras import missing

try:
    import ray.data  # noqa: F401  # before the modules below, which need it
except ImportError as error:
    raise missing("alance.ray needs Ray Data", "ray") from error

from alance.ray.columns import map_columns
from alance.ray.reading import read_table
from alance.ray.upkeep import build_index, maintain
from alance.ray.writing import write_table

__all__ = ["build_index", "maintain", "map_columns", "read_table", "write_table"]
