"""The package as a whole."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import alance
from alance.base.extras import installing

ROOT = Path(__file__).parents[1]


# An editable install finds its sources whatever the path says; others do not.
NOT_EDITABLE = """
import sys
sys.meta_path[:] = [one for one in sys.meta_path if "Redirecting" not in type(one).__name__]
"""


def run(program: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """As `python` in a folder, which comes first on the path."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", NOT_EDITABLE + program],
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
        timeout=120,
    )


def test_sources_in_the_current_folder_find_the_installed_kernels(tmp_path: Path) -> None:
    """Python in a clone takes the package from there, which has no kernels; so does the lab's."""
    (tmp_path / "alance").symlink_to(ROOT / "alance")
    program = """
import sys
import alance
from alance.testing.lab import Lab
with Lab() as lab:
    print(alance.__file__, lab.stats()["requests"])
"""
    done = run(program, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(tmp_path / "alance" / "__init__.py"), "0"]


def test_missing_kernels_are_told_with_what_to_do(tmp_path: Path) -> None:
    done = run("import sys; sys.modules['_alance_kernels'] = None; import alance", tmp_path)
    assert done.returncode == 1
    assert "ImportError: alance's compiled kernels are not installed" in done.stderr
    assert "`pip install .`" in done.stderr


def test_kernels_of_other_sources_are_refused(tmp_path: Path) -> None:
    """Else a call with other arguments would fail somewhere, or crash."""
    (tmp_path / "alance").mkdir()
    (tmp_path / "alance" / "__init__.py").touch()
    for name in ("_kernels.py", "_kernels.pyi"):
        (tmp_path / "alance" / name).write_bytes((ROOT / "alance" / name).read_bytes())
    done = run("import alance._kernels", tmp_path)
    assert done.returncode == 0, done.stderr
    with (tmp_path / "alance" / "_kernels.pyi").open("a") as file:
        file.write("def one_more() -> None: ...\n")
    done = run("import alance._kernels", tmp_path)
    assert done.returncode == 1
    assert "ImportError: the compiled kernels in " in done.stderr
    assert f"built from other sources than {tmp_path / 'alance'}: `pip install .`" in done.stderr


def test_the_version_is_that_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    place = project["tool"]["scikit-build"]["metadata"]["version"]["input"]
    assert f'__version__ = "{alance.__version__}"\n' in (ROOT / place).read_text()


def test_all_public_names_are_there_and_documented() -> None:
    for name in alance.__all__:
        public = getattr(alance, name)
        if name != "__version__":
            assert public.__doc__, name
            assert public.__doc__.strip()


def test_files_are_of_one_idea() -> None:
    """Near 600 lines a file holds two, as far as a number can tell."""
    for path in [*ROOT.glob("alance/**/*.py"), *ROOT.glob("alance/**/*.cpp")]:
        if "_pb2" not in path.name:
            assert len(path.read_text().splitlines()) <= 600, path


def test_errors_name_the_packages_of_an_extra() -> None:
    """Right for a clone, a wheel and a release; `alance[sql]` is for an index that has alance."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extra, packages in project["optional-dependencies"].items():
        message = installing(extra)
        assert message.endswith(f"(alance's extra `{extra}`)")
        assert message.startswith("`pip install '")
        for package in packages:
            assert f"'{package.partition('>')[0]}" in message
    for file in (ROOT / "alance").rglob("*.py"):
        assert "install alance[" not in file.read_text(), file


WITHOUT: Final = """
import json
import sys

import pyarrow as pa

import alance
import alance.sync

uri, doors = sys.argv[1:]
dataset = alance.sync.write_dataset(pa.table({"id": [1]}), uri)
for package, door, extra in json.loads(doors):
    others = {name: sys.modules.pop(name) for name in [package] if name in sys.modules}
    sys.modules[package] = None  # an import of it fails
    try:
        exec(door)
    except alance.MissingPackageError as error:
        assert isinstance(error, ImportError)
        assert f"(alance's extra `{extra}`)" in str(error) or not extra, error
        assert "pip install" in str(error)
    else:
        raise AssertionError(f"{door} worked")
    del sys.modules[package]
    sys.modules.update(others)
"""
READ: Final = (
    "from alance.command.files import reader_of; "
    "reader_of([dataset.uri], '{}', None, with_folders=True)"
)
DOORS: Final = [
    ("duckdb", "dataset.sql('select 1')", "sql"),
    ("duckdb", "list(dataset.sql_batches('select 1'))", "sql"),
    ("polars", "dataset.to_polars()", ""),
    ("polars", "dataset.to_polars_lazy()", ""),
    ("ray", "import alance.ray", "ray"),
    ("torch", "import alance.torch", "torch"),
    ("datasets", "import alance.huggingface", "huggingface"),
    ("opentelemetry", "alance.observe.OpenTelemetry()", "otel"),
    ("starlette", "from alance.serve import Service; Service({'t': dataset.uri}).app", "serve"),
    ("deltalake", READ.format("delta"), "delta"),
    ("pyiceberg", READ.format("iceberg"), "iceberg"),
    ("lance_namespace_urllib3_client", "alance.sync.connect('http://127.0.0.1:1')", "catalog"),
    ("botocore", "alance.sync.dataset('s3+ddb://b/t?ddbTableName=x')", "dynamodb"),
]


def test_what_needs_another_package_says_how_to_install_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT, str(tmp_path / "t"), json.dumps(DOORS)],
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr


def test_an_image_of_the_service_is_built_from_all_that_a_wheel_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = [*project["tool"]["scikit-build"]["wheel"]["packages"], "pyproject.toml"]
    needed += [project["project"]["readme"], *project["project"]["license-files"]]
    ignored = (ROOT / "examples/service/Dockerfile.dockerignore").read_text().splitlines()
    assert {line[1:] for line in ignored if line.startswith("!")} == set(needed)
