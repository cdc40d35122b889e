"""Arguments of a request: the checked members of its JSON object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from alance import InvalidInputError
from alance.serve.json_columns import parsed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Kinds = tuple[type, ...]
_SEARCHED: Final[Mapping[str, Kinds]] = {
    "k": (int,),
    "columns": (list, dict),
    "filter": (str,),
    "params": (list, dict),
    "prefilter": (bool,),
    "use_index": (bool,),
    "fast_search": (bool,),
}
_VECTORS: Final[Mapping[str, Kinds]] = {
    "metric": (str,),
    "nprobes": (int,),
    "minimum_nprobes": (int,),
    "maximum_nprobes": (int,),
    "refine_factor": (int,),
    "ef": (int,),
    "distance_range": (list,),
}
MEMBERS: Final[Mapping[str, Mapping[str, Kinds]]] = {
    "get": {"keys": (list,), "column": (str,), "columns": (list, dict), "missing": (str,)},
    "take": {"rows": (list,), "columns": (list, dict)},
    "count": {"filter": (str,), "params": (list, dict)},
    "query": {
        "columns": (list, dict),
        "filter": (str,),
        "params": (list, dict),
        "limit": (int,),
        "offset": (int,),
        "order_by": (list,),
        "with_row_id": (bool,),
        "with_row_address": (bool,),
        "blob_handling": (str,),
    },
    "sql": {"query": (str,), "params": (list, dict)},
    "nearest": {"vector": (list,), "column": (str,), **_SEARCHED, **_VECTORS},
    "text": {"query": (str,), "on": (str, list), **_SEARCHED},
    "search": {
        "text": (str,),
        "vector": (list,),
        "on": (str, list),
        "vector_column": (str,),
        "combine": (str, dict),
        "candidates": (int,),
        **_SEARCHED,
        **_VECTORS,
    },
    "rows": {"rows": (list,)},
    "reload": {},
}
NEEDED: Final[Mapping[str, Sequence[str]]] = {
    "get": ("keys",),
    "take": ("rows",),
    "sql": ("query",),
    "nearest": ("vector",),
    "text": ("query",),
    "search": ("text", "vector"),
    "rows": ("rows",),
}
# Types of list items; in a query of several vectors, `vector` is a list of lists.
_ITEMS: Final[Mapping[str, Kinds]] = {
    "columns": (str,),
    "on": (str,),
    "order_by": (str,),
    "vector": (int, float, list),
    "distance_range": (int, float, type(None)),
}


def arguments_of(verb: str, body: bytes) -> dict[str, Any]:
    """Parse and check the members of a request's object; an empty body is an empty object.

    Members that are null are omitted.

    Raises:
        InvalidInputError: the body is not a JSON object, or a member is unknown, missing or of the
            wrong type.
    """
    try:
        values = parsed(body or b"{}", exact=verb == "rows")
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{verb}: not JSON: {error}") from error
    if not isinstance(values, dict):
        raise InvalidInputError(f"{verb}: expected a JSON object, not {_kind(values)}")
    members = MEMBERS[verb]
    for name, value in values.items():
        if name not in members:
            raise InvalidInputError(f"{verb}: unknown {name!r}; expected {', '.join(members)}")
        if value is not None and type(value) not in members[name]:
            expected = " or ".join(kind.__name__ for kind in members[name])
            raise InvalidInputError(f"{verb}: {name} is {_kind(value)}, expected {expected}")
        for item in value if isinstance(value, list) and name in _ITEMS else ():
            if type(item) not in _ITEMS[name]:
                raise InvalidInputError(f"{verb}: {name} has {_kind(item)} in it")
    for name in NEEDED.get(verb, ()):
        if values.get(name) is None:
            raise InvalidInputError(f"{verb}: {name} is missing")
    return {name: value for name, value in values.items() if value is not None}


def _kind(value: object) -> str:
    return {dict: "an object", list: "a list", type(None): "null"}.get(
        type(value), f"{value!r:.100}"
    )
