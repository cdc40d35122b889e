#!/bin/sh
# Regenerates alance/format/proto from protos/. `make protos` calls it; a test compares the result.
# protoc must be of the 31 line (grpcio-tools 1.75): its output runs on protobuf 6.31 and 7.
set -eu
cd "$(dirname "$0")/.."
out="${1:-.}"
python="${PYTHON:-.venv/bin/python}"
"$python" -m grpc_tools.protoc --proto_path=alance/format/proto=protos \
  --python_out="$out" --pyi_out="$out" protos/*.proto
