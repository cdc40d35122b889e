"""Control characters in names and values are printed as escapes, which a terminal does not obey."""

from __future__ import annotations

import csv
import io
import logging
import sys
import unicodedata
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import alance.sync
from alance.command import main
from alance.command.terminal import CONTROLS, EscapedFormatter, escaped

if TYPE_CHECKING:
    from pathlib import Path

EVIL = "[red]\x1b]0;own\x07\x1b[2J\x9b31m\u202e\u2066\u200b\ufeff\u2028\x7f\r\n\t\U000e0041\u3164x"
SHOWN = (
    r"[red]\x1b]0;own\x07\x1b[2J\x9b31m\u202e\u2066\u200b\ufeff\u2028\x7f\r\n\t\U000e0041\u3164x"
)


def are_safe(text: str) -> bool:
    return (
        not any(unicodedata.category(c) in CONTROLS for c in text if c not in "\n\t")
        and "\u3164" not in text
    )


@pytest.fixture
def uri(tmp_path: Path) -> str:
    kinds = pa.struct([pa.field(EVIL, pa.string())])
    rows = pa.table({"x" + EVIL: [EVIL], "l": [[EVIL]], "s": pa.array([{EVIL: EVIL}], kinds)})
    dataset = alance.sync.write_dataset(rows, tmp_path / "t")
    dataset.update_config({"k" + EVIL: EVIL})
    return str(tmp_path / "t")


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize(
    "arguments",
    [
        ["head"],
        ["take", "0"],
        ["info"],
        ["schema"],
        ["config"],
        ["explain"],
        ["validate"],
        ["files"],
        ["head", "--json"],
        ["cat"],
        ["sql", "select * from dataset"],
    ],
)
def test_output_has_no_control_characters(
    uri: str,
    arguments: list[str],
    is_terminal: bool,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "500")
    if is_terminal:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main([arguments[0], uri, *arguments[1:]]) == 0
    out, error = capfd.readouterr()
    assert are_safe(out), ascii(out)
    assert error == ""
    assert "\\x1b" in out or "\\u001b" in out or arguments[0] in ("validate",)


@pytest.mark.parametrize(
    "arguments",
    [
        ["head", "{}", "--columns", EVIL],
        ["head", "{}/none" + EVIL.replace("\0", "")],
        ["head", "{}", "--filter", f"`{EVIL}` = 1"],
        ["write", "{}2", "none" + EVIL],
        ["tags", "{}", "--create", EVIL],
        ["sql", "{}", f'select "{EVIL}" from dataset'],
    ],
)
def test_errors_have_no_control_characters(
    uri: str, arguments: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([text.format(uri) for text in arguments]) == 1
    error = capfd.readouterr().err
    assert are_safe(error.replace("\t", "")), ascii(error)
    assert r"\x1b" in error


def test_errors_of_arguments_have_no_control_characters(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["head", "t", "--" + EVIL])
    error = capfd.readouterr().err
    assert are_safe(error)
    assert SHOWN in error


def test_log_records_have_no_control_characters() -> None:
    record = logging.LogRecord("alance", 30, "", 0, "%r: %s", ("/" + EVIL, EVIL), None)
    line = EscapedFormatter("%(message)s").format(record)
    assert are_safe(line.replace("\t", ""))
    assert line.count("\n") == 1  # of the second, which is no path


@pytest.mark.parametrize("is_terminal", [True, False])
def test_csv_is_escaped_for_terminals_alone(
    uri: str,
    is_terminal: bool,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    if is_terminal:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["cat", uri, "--format", "csv"]) == 0
    out = capfdbinary.readouterr().out.decode()
    if is_terminal:
        assert are_safe(out)
        return
    header, row = csv.reader(io.StringIO(out, newline=""))
    assert header == ["x" + EVIL, "l", "s"]
    assert row[0] == EVIL
    assert EVIL.encode("ascii", "ignore")[:5].decode() in row[1]


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_bytes_are_not_printed_to_a_terminal(
    uri: str, form: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["cat", uri, "--format", form]) == 1
    out, error = capfd.readouterr()
    assert (out, "expected a file or a pipe" in error) == ("", True)


def test_csv_has_values_of_all_types(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    rows = pa.table(
        {
            "list": [[1, None], None],
            "raw": [b"\xff", None],
            "map": pa.array([[("a", b"x")], None], pa.map_(pa.string(), pa.binary())),
            "struct": pa.array([{"a": 'q"'}, None]),
            "uuid": pa.ExtensionArray.from_storage(
                pa.uuid(), pa.array([bytes(16), None], pa.binary(16))
            ),
            "raw_word": pa.array([b"\xff", None]).dictionary_encode(),
            "word": pa.array(["a", None]).dictionary_encode(),
            "n": [1, None],
        }
    )
    alance.sync.write_dataset(rows, tmp_path / "t")
    assert main(["cat", str(tmp_path / "t"), "--format", "csv"]) == 0
    out = capfdbinary.readouterr().out.decode()
    header, first, second = csv.reader(io.StringIO(out, newline=""))
    assert header == rows.schema.names
    null = "00000000-0000-0000-0000-000000000000"
    texts = ["[1, null]", "/w==", '[["a", "eA=="]]', '{"a": "q\\""}', null, "/w==", "a", "1"]
    assert (first, second) == (texts, [""] * 8)


def test_every_hidden_character_is_escaped() -> None:
    for number in range(sys.maxunicode + 1):
        character = chr(number)
        is_hidden = unicodedata.category(character) in CONTROLS
        if is_hidden:
            assert escaped(character).isascii(), number
            assert escaped(character, allowed=character) == character
    for text in ("plain", "ü日本語\u3000 é\u0301\U0001f600", ""):
        assert escaped(text) == text
