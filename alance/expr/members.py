"""Members of structs, of columns and of computed values alike."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from alance.expr.problem import Problem, unknown
from alance.expr.text import literal_text
from alance.expr.tree import Column, Node, call, plain, plain_type


def member(node: Node, name: str) -> Node:
    """A member of a struct by its exact name; of a column, the nested field alone.

    Raises:
        Problem: no struct, or no such member.
    """
    what = ".".join(node.path) if isinstance(node, Column) else "the value"
    if not pa.types.is_struct(node.type):
        raise Problem(f"{what!r} is {node.type}, it has no field {name!r}")
    index = node.type.get_field_index(name)
    if index < 0:
        names = [node.type.field(number).name for number in range(node.type.num_fields)]
        raise unknown("field", f"{what}.{name}", names)
    if isinstance(node, Column):
        return Column((*node.path, name), plain_type(node.type.field(index).type))
    return call(f".{name}", lambda values: plain(pc.struct_field(values, [index])), node)


def get_field(name: str, args: list[Node]) -> Node:
    """get_field(struct, 'member')."""
    return member(args[0], literal_text(name, args[1]))
