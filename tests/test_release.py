"""A release is made of what the sources say: versions, dependencies, platforms."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
import yaml

from alance._version import __version__
from tests.pages import ROOT
from tools.changelog import section, version_of

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
JOBS = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"]
CHANGELOG = """# Changelog

## 1.1.0 (unreleased)

New.

## 1.0.1 (2026-02-03)

### Fixed

- One thing.

## 1.0.0 (2026-01-02)

First.
"""


def test_the_notes_of_a_release_are_its_section_of_the_changelog() -> None:
    assert section(CHANGELOG, "1.0.1", released=True) == "### Fixed\n\n- One thing.\n"
    assert section(CHANGELOG, "1.0.0", released=True) == "First.\n"
    assert section(CHANGELOG, "1.1.0", released=False) == "New.\n"


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("1.1.0", "1.1.0 is unreleased: write its date instead"),
        ("2.0.0", "no section of 2.0.0; it has 1.1.0, 1.0.1, 1.0.0"),
    ],
)
def test_a_version_without_a_dated_section_is_not_released(version: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        section(CHANGELOG, version, released=True)


def test_a_tag_is_the_version_of_the_sources() -> None:
    source = '"""The version."""\n\n__version__ = "1.2.3"\n'
    assert version_of("v1.2.3", source) == version_of("--next", source) == "1.2.3"
    with pytest.raises(ValueError, match=r"has 1\.2\.3: name the tag v1\.2\.3"):
        version_of("1.2.3", source)


def test_the_version_of_the_sources_has_a_section() -> None:
    assert section((ROOT / "CHANGELOG.md").read_text(), __version__, released=False)


def test_the_conda_recipe_has_the_version_and_the_dependencies_of_the_package() -> None:
    recipe = yaml.safe_load((ROOT / "conda/recipe.yaml").read_text())
    assert recipe["package"]["version"] == __version__
    project = PROJECT["project"]
    run = [requirement.replace(" ", "") for requirement in recipe["requirements"]["run"]]
    assert run == [f"python{project['requires-python']}", *project["dependencies"]]
    host = [requirement.replace(" ", "") for requirement in recipe["requirements"]["host"]]
    assert set(PROJECT["build-system"]["requires"]) <= set(host)
    scripts = [f"{name} = {place}" for name, place in project["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == scripts
    assert recipe["about"]["license"] == project["license"]
    assert recipe["about"]["summary"] == project["description"]


def test_pythons_are_the_same_in_the_package_the_workflows_and_the_docs() -> None:
    test = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())["jobs"]["test"]
    versions = test["strategy"]["matrix"]["python"]
    built = PROJECT["tool"]["cibuildwheel"]["build"].split()
    assert built == [f"cp{version.replace('.', '')}-*" for version in versions]
    assert PROJECT["project"]["requires-python"] == f">={versions[0]}"
    mark = "Programming Language :: Python :: 3."
    classified = [
        entry.rpartition(" ")[2]
        for entry in PROJECT["project"]["classifiers"]
        if entry.startswith(mark)
    ]
    assert classified == versions
    supported = (ROOT / "docs/compatibility.md").read_text()
    assert f"| Python | {versions[0]} to {versions[-1]}" in supported


def test_wheels_are_made_for_the_systems_that_are_supported() -> None:
    machines = JOBS["wheels"]["strategy"]["matrix"]["machine"]
    assert {machine.partition("-")[0] for machine in machines} == {"ubuntu", "macos", "windows"}
    assert any(machine.endswith("-arm") for machine in machines)
    assert any(machine.endswith("-intel") for machine in machines)
    upload = JOBS["wheels"]["steps"][-1]["with"]["name"]
    published = JOBS["publish"]["steps"][0]["with"]["pattern"]
    assert published == "wheels-*"
    assert "windows-latest' && 'tried' || 'wheels'" in upload
    assert "make wheel" in [step.get("run") for step in JOBS["source"]["steps"]]


def needs(job: str) -> set[str]:
    """Return all jobs that have to pass before one."""
    direct: Any = JOBS[job].get("needs", [])
    names = {direct} if isinstance(direct, str) else set(direct)
    return names.union(*map(needs, names))


def test_nothing_is_published_but_by_a_tag_after_all_that_can_fail() -> None:
    for job, steps in JOBS.items():
        writes = {
            scope for scope, right in steps.get("permissions", {}).items() if right == "write"
        }
        if writes:
            assert steps["if"].startswith("github.ref_type == 'tag'"), job
            assert needs(job) >= {"notes", "wheels", "source"}, job
    assert JOBS["publish"]["permissions"] == {"attestations": "write", "id-token": "write"}
    assert JOBS["release"]["permissions"] == {"contents": "write"}
