"""Runs tests with kernels that the compiler's sanitizers watch: `make sanitize`.

    python -m tests.kernels.sanitized FOLDER [--all-kernels] [arguments of pytest]

FOLDER holds `_alance_kernels`, built with `ALANCE_SANITIZE=ON`. A read or write out of bounds and
undefined behaviour end the run at once, with the place in the C++ code. Kernels' memory that nobody
holds at the end is an error as well; with `--all-kernels` also a kernel that no test has called.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.kernels.called import never_called

# Whose memory it is, says the first of these in its trace of calls. nanobind's own tables live
# until the process ends, as many of Python's objects do: no leaks of ours.
OWNER = re.compile(r"in alance::|/alance/kernels/(?:\w+/)*\w+\.[ch]pp|in nanobind::|/nanobind/")
RUNTIMES = ("libasan.so", "libstdc++.so")  # loaded first; exceptions need the latter there
ROOT = Path(__file__).parents[2]
# An editable install finds its own kernels whatever the path says.
AT_START = """
import sys
sys.meta_path[:] = [f for f in sys.meta_path if "Redirecting" not in type(f).__name__]
from tests.kernels.called import note_calls
note_calls({reports!r})
"""


def runtime(name: str) -> str:
    """Return the path of a library of the compiler."""
    command = [os.environ.get("CXX", "c++"), f"-print-file-name={name}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def environment(folder: Path, log: Path) -> dict[str, str]:
    """Return the environment of the run."""
    options = {
        "detect_leaks": 1,
        # Errors abort; leaks are looked at afterwards, since Python's own make no difference.
        "abort_on_error": 1,
        "exitcode": 0,
        "handle_segv": 1,
        # Sizes that a damaged file claims are a MemoryError, as they are without memory.
        "allocator_may_return_null": 1,
        "max_allocation_size_mb": 1024,
        "detect_stack_use_after_return": 0,
        "log_path": log,
    }
    message = ":".join(f"{name}={value}" for name, value in options.items())
    return {
        **os.environ,
        "LD_PRELOAD": " ".join(runtime(name) for name in RUNTIMES),
        "ASAN_OPTIONS": message,
        "UBSAN_OPTIONS": "print_stacktrace=1:abort_on_error=1:log_path=" + str(log),
        "LSAN_OPTIONS": "report_objects=0:max_leaks=0",
        "PYTHONMALLOC": "malloc",  # else objects hide in arenas that no sanitizer sees into
        "PYTHONPATH": os.pathsep.join([str(log.parent), str(folder), str(ROOT)]),
    }


def leaks(log: Path) -> list[str]:
    """The parts of the reports that are about memory of the kernels."""
    parts = [
        part
        for report in log.parent.glob(f"{log.name}.*")
        for part in report.read_text(errors="replace").split("\n\n")
    ]
    owners = [(part, OWNER.search(part)) for part in parts if "leak of" in part]
    return [part for part, owner in owners if owner and "nanobind" not in owner[0]]


def errors(log: Path) -> list[str]:
    """Reports of other kinds."""
    texts = [report.read_text(errors="replace") for report in log.parent.glob(f"{log.name}.*")]
    return [text for text in texts if "ERROR: AddressSanitizer" in text or "runtime error" in text]


def main() -> int:
    """The exit code."""
    folder, *arguments = sys.argv[1:]
    has_all = "--all-kernels" in arguments
    arguments = [argument for argument in arguments if argument != "--all-kernels"]
    with tempfile.TemporaryDirectory() as reports:
        log = Path(reports) / "report"
        Path(reports, "sitecustomize.py").write_text(AT_START.format(reports=reports))
        message = environment(Path(folder).resolve(), log)
        which = [
            sys.executable,
            "-c",
            "import alance._kernels, _alance_kernels as k; print(k.__file__)",
        ]
        place = subprocess.run(
            which, check=True, env=message, capture_output=True, text=True
        ).stdout
        if not Path(place.strip()).is_relative_to(Path(folder).resolve()):
            print(f"the kernels are those of {place}, not of {folder}")
            return 1
        code = subprocess.run([sys.executable, "-m", "pytest", *arguments], env=message).returncode
        wrong = errors(log) + leaks(log)
        uncalled = never_called(Path(reports)) if has_all else []
    for text in wrong:
        print(text)
    print(f"sanitizers: {len(wrong)} reports of the kernels")
    if uncalled:
        print("no test of these has called:", *uncalled, sep="\n  ")
    return code or bool(wrong or uncalled)


if __name__ == "__main__":
    sys.exit(main())
