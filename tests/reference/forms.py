"""Forms of fragments, as the kernel has them."""

from __future__ import annotations

from alance.format.proto import copied, table_pb2
from alance.format.table.flags import SEQUENCE_ONEOFS

# Fields of a record that its form omits; see `fragment.Records`.
OWN_PARTS = ("id", "physical_rows", "deletion_file")


def form_bytes(fragment: table_pb2.DataFragment) -> bytes:
    """Serialize the form of a fragment; see `Records`."""
    form = copied(fragment)
    for name in OWN_PARTS:
        form.ClearField(name)
    if fragment.HasField("deletion_file"):
        form.deletion_file.SetInParent()
    for file in form.files:
        file.ClearField("path")
        file.ClearField("file_size_bytes")
    for sequence in SEQUENCE_ONEOFS:
        arm = form.WhichOneof(sequence)
        if arm is not None and arm.startswith("inline_"):
            setattr(form, arm, b"")
        elif arm is not None:
            getattr(form, arm).Clear()
            getattr(form, arm).SetInParent()
    return bytes(form.SerializeToString(deterministic=True))
