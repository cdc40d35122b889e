"""Description of a data file: its columns, pages, layouts and encodings, with their sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from google.protobuf.any_pb2 import Any
from google.protobuf.message import DecodeError, Message

from alance.base.records import dataclass
from alance.errors import CorruptFileError, UnsupportedError
from alance.format.proto import encodings_v2_0_pb2, encodings_v2_1_pb2, encodings_v2_3_pb2
from alance.format.v0_1.metadata import BatchContainer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from alance.format.container import Container, FileColumn, Page
    from alance.format.field import Field
    from alance.format.plans import Plan
    from alance.format.schema import Schema

# Fields that the text of an encoding omits, because their values are bytes or wrappers.
_SILENT: Final = frozenset({"buffer", "symbol_table", "value"})
_DESCRIBED_MESSAGES: Final[dict[str, type[Message]]] = {
    "lance.encodings21.PageLayout": encodings_v2_1_pb2.PageLayout,
    "lance.encodings23.PlanarLayout": encodings_v2_3_pb2.PlanarLayout,
    "lance.encodings.ArrayEncoding": encodings_v2_0_pb2.ArrayEncoding,
}


@dataclass(frozen=True, slots=True)
class PageDescription:
    """Description of a page.

    Attributes:
        num_rows: rows of the page, multiplied by the dimensions of fixed-size lists of structs.
        num_bytes: bytes of all its buffers.
        start: file offset of the page's first buffer; 0 if it has no buffer.
        layout: name of the layout, such as `mini-block`.
        encoding: encodings of the values, outermost first, such as `general(zstd) flat(32)`.
    """

    num_rows: int
    num_bytes: int
    start: int
    layout: str
    encoding: str


@dataclass(frozen=True, slots=True)
class ColumnDescription:
    """Description of a column: a leaf of the schema; in older files, also a list or struct.

    Attributes:
        path: dotted path of the field.
        num_bytes: bytes of the buffers of all pages.
    """

    path: str
    type: pa.DataType
    pages: tuple[PageDescription, ...]
    num_bytes: int

    @property
    def layouts(self) -> tuple[str, ...]:
        """Distinct layouts and encodings of the pages, as text."""
        texts = (f"{page.layout} {page.encoding}".strip() for page in self.pages)
        return tuple(dict.fromkeys(texts))


@dataclass(frozen=True, slots=True)
class FileDescription:
    """Description of a data file with its columns and pages.

    Attributes:
        location: URI or path of the file.
        version: version of the file format, such as `2.2`.
        num_bytes: size of the file, which includes metadata, global buffers and padding.
        global_buffers: size of each global buffer; the first one has the schema.
    """

    location: str
    version: str
    num_rows: int
    num_bytes: int
    columns: tuple[ColumnDescription, ...]
    global_buffers: tuple[int, ...]


def describe(
    container: Container, schema: Schema, num_rows: int, columns: Mapping[int, int]
) -> Plan[FileDescription]:
    """Plan the description of an open file: no round if its tail holds all metadata, else one.

    Args:
        columns: column number of each field, by field id.

    Raises:
        CorruptFileError: the metadata contradict the file.
        UnsupportedError: the file has version 0.1, whose pages have no layouts or encodings.
    """
    if isinstance(container, BatchContainer):
        raise UnsupportedError(
            f"{container.path}: a file of version 0.1 has no layouts; expected 2.0 or later"
        )
    paths = schema.paths
    fields = [field for field in schema.walk() if field.id in columns]
    records = yield from container.read_columns([columns[field.id] for field in fields])
    return FileDescription(
        container.path,
        container.version.value,
        num_rows,
        container.file_bytes,
        tuple(
            _column(container, paths[field.id], field, record)
            for field, record in zip(fields, records, strict=True)
        ),
        tuple(int(stop - start) for start, stop in container.buffers.tolist()),
    )


def _column(container: Container, path: str, field: Field, record: FileColumn) -> ColumnDescription:
    pages = tuple(_page(container, page) for page in record.pages)
    return ColumnDescription(path, field.arrow_type, pages, record.buffer_bytes)


def _page(container: Container, page: Page) -> PageDescription:
    layout, encoding = _texts(container, page.encoding)
    start = page.buffers[0][0] if page.buffers else 0
    num_bytes = sum(size for _, size in page.buffers)
    return PageDescription(page.num_rows, num_bytes, start, layout, encoding)


def _texts(container: Container, content: bytes) -> tuple[str, str]:
    """Return the layout and encoding of a page as text; the layout of 2.0 pages is `array`."""
    try:
        message = Any.FromString(content)
        kind = _DESCRIBED_MESSAGES.get(message.type_url.rpartition("/")[2])
        if kind is None:
            return message.type_url.rpartition(".")[2], ""
        inner = kind.FromString(message.value)
    except DecodeError as error:
        raise CorruptFileError(f"a page of {container.path}: its layout: {error}") from error
    if isinstance(inner, encodings_v2_1_pb2.PageLayout):
        return _layout(inner)
    if isinstance(inner, encodings_v2_3_pb2.PlanarLayout):
        return _planar(inner)
    return "array", text_of(inner)


def _layout(layout: encodings_v2_1_pb2.PageLayout) -> tuple[str, str]:
    name = layout.WhichOneof("layout")
    if name is None:
        return "empty", ""
    if name == "blob_layout":
        inner, encoding = _layout(layout.blob_layout.inner_layout)
        return f"blob, {inner}", encoding
    plain = name.removesuffix("_layout").replace("_", "-")
    message = getattr(layout, name)
    if name == "constant_layout":
        return plain, ""
    encoding = text_of(message.value_compression)
    return plain, _beside(message, encoding) if name == "mini_block_layout" else encoding


def _planar(layout: encodings_v2_3_pb2.PlanarLayout) -> tuple[str, str]:
    structure, codec = layout.structure.WhichOneof("codec"), layout.values.WhichOneof("codec")
    name = f"{structure or 'no structure'}, {codec or 'no values'}"
    values = layout.values
    if codec == "chunked":
        return name, _beside(values.chunked, text_of(values.chunked.compression))
    if codec == "zipped":
        return name, text_of(values.zipped.compression)
    return name, text_of(values.indexed.indices) if codec == "indexed" else ""


def _beside(
    page: encodings_v2_1_pb2.MiniBlockLayout | encodings_v2_3_pb2.ChunkedValues, values: str
) -> str:
    """Describe the encoding of a page's values as text, with its dictionary first if it has one."""
    if not page.num_dictionary_items:
        return values
    return f"dictionary({page.num_dictionary_items} of {text_of(page.dictionary)}) {values}"


def text_of(message: Message) -> str:
    """Describe an encoding as text: its name, its parameters, then the encodings inside it.

    Returns an empty text if the message names no encoding.
    """
    for choice in ("compression", "array_encoding"):
        if choice in message.DESCRIPTOR.oneofs_by_name:
            name = message.WhichOneof(choice)
            return "" if name is None else _named(name, getattr(message, name))
    return ""


def _named(name: str, message: Message) -> str:
    facts, inner = [], []
    for field, value in message.ListFields():
        if field.name in _SILENT:
            continue
        if isinstance(value, encodings_v2_1_pb2.BufferCompression):
            facts.append(_scheme(value))
        elif isinstance(value, encodings_v2_0_pb2.Compression):
            facts.append(value.scheme)
        elif field.message_type is not None:
            inner += _inside(value)
        elif isinstance(value, int | str) and not isinstance(value, bool):
            facts.append(str(value))
    outer = name.replace("_", "-") + (f"({', '.join(facts)})" if facts else "")
    return " ".join([outer, *inner]) if len(inner) < 2 else f"{outer} [{'; '.join(inner)}]"


def _scheme(message: encodings_v2_1_pb2.BufferCompression) -> str:
    """Return the name of a general compression scheme, such as `zstd`."""
    name: str = encodings_v2_1_pb2.CompressionScheme.Name(message.scheme)
    return name.removeprefix("COMPRESSION_ALGORITHM_").lower()


def _inside(value: Message | Sequence[Message]) -> list[str]:
    """Describe the encodings of a field's messages as text, or those inside of these messages."""
    texts: list[str] = []
    for message in [value] if isinstance(value, Message) else value:
        if text := text_of(message):
            texts.append(text)
        else:
            parts = [part for field, part in message.ListFields() if field.message_type]
            texts += [text for part in parts for text in _inside(part)]
    return texts
