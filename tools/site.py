"""Pages of the site that are not in docs/: a hook of MkDocs (`mkdocs.yml`, `make docs`).

The reference is generated from the docstrings: a page for each public class of `alance`, one for
its functions, one for its errors, and one for each other module of docs/api.md. The project's
README becomes the first page. Nothing is written into the source tree.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT: Final = Path(__file__).parents[1]
# Path on the site of each file outside of docs/, and of a page that moves.
MOVED: Final = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
    "docs/README.md": "pages.md",
}
MODULE: Final = re.compile(r"^\| `alance\.([\w.]+)` \|", re.MULTILINE)
LINK: Final = re.compile(r"(?<=\]\()(?!\w+:|#)([^)#\s]+)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of the reference where the navigation has `reference/`."""
    for section in config.nav or []:
        if isinstance(section, dict) and "Reference" in section:
            pages: list[Any] = section["Reference"]
            place = pages.index("reference/")
            pages[place : place + 1] = [{title: path} for title, path, _ in reference()]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    from mkdocs.structure.files import File

    listed = files.get_file_from_path("README.md")
    assert listed is not None
    files.remove(listed)
    for source, path in MOVED.items():
        text = (ROOT / source).read_text()
        files.append(File.generated(config, path, content=relinked(text, source, path)))
    for title, path, names in reference():
        blocks = "\n\n".join(f"::: {name}" for name in names)
        files.append(File.generated(config, path, content=f"# {title}\n\n{blocks}\n"))
    return files


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Convert the links of a page to links on the site."""
    path = page.file.src_uri
    return markdown if path in MOVED.values() else relinked(markdown, f"docs/{path}", path)


def reference() -> Iterator[tuple[str, str, list[str]]]:
    """Yield the title, the path and the public names of each page of the reference."""
    alance = importlib.import_module("alance")
    public = {name: getattr(alance, name) for name in alance.__all__ if name[0] != "_"}
    errors = [name for name, value in public.items() if _is_class(value, Exception)]
    classes = [name for name, value in public.items() if _is_class(value) and name not in errors]
    functions = [
        name
        for name, value in public.items()
        if not inspect.isclass(value) and not isinstance(value, ModuleType)
    ]
    yield "Functions", "reference/functions.md", [f"alance.{name}" for name in functions]
    for name in classes:
        yield name, f"reference/{name}.md", [f"alance.{name}"]
    yield "Errors", "reference/errors.md", [f"alance.{name}" for name in errors]
    for name in modules():
        yield f"alance.{name}", f"reference/alance.{name}.md", [f"alance.{name}"]


def modules() -> list[str]:
    """Return the public modules below `alance` that docs/api.md lists, except `sync`."""
    names = MODULE.findall((ROOT / "docs" / "api.md").read_text())
    return [name for name in names if name != "sync"]


def _is_class(value: object, base: type = object) -> bool:
    return inspect.isclass(value) and issubclass(value, base)


def relinked(text: str, source: str, path: str) -> str:
    """Convert the links in a page to files of the source tree to links between pages of the site.

    Args:
        source: the page's path in the tree.
        path: its path on the site.
    """

    def link(match: re.Match[str]) -> str:
        target = (ROOT / source).parent.joinpath(match[1]).resolve().relative_to(ROOT).as_posix()
        place = MOVED.get(target, target.removeprefix("docs/"))
        return "../" * path.count("/") + place

    return LINK.sub(link, text)
