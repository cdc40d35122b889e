"""The parts of a scan that only a filter needs, imported with the first one: see `load_readers`."""

from alance.ops.lookup.look_up import look_up
from alance.ops.read.pruning import pruner_of

__all__ = ["look_up", "pruner_of"]
