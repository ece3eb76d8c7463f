"""Build the documentation site from ``docs/``, the tutorials, the benchmarks and the changelog.

    python tools/docs_site.py             # writes site/, to be opened without a server: site/index.html
    python tools/docs_site.py --serve     # serves it, and builds again after each change

Zensical builds the site, configured by ``zensical.toml``, from a temporary folder in which this program gathers all
pages: notebooks are converted to pages, linked source files get their own pages, links are adapted, formulas are
converted to MathML, and pictures of environments are replaced by running environments. Dead links are errors.
"""

from __future__ import annotations

import argparse
import ast
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from html import unescape
from pathlib import Path

import nbformat
from latex2mathml.converter import convert
from live_pages import NAMES, live_pages
from nbconvert import MarkdownExporter

PROJECT = Path(__file__).resolve().parents[1]
SOURCES = ("docs/**/*", "tutorials/*.ipynb", "benchmarks/README.md", "benchmarks/results/*.md", "*.md")
ELSEWHERE = {
    "README.md": "index.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "benchmarks/README.md": "benchmarks/index.md",
}
"""Pages whose place in the site differs from that in the repository; the home page takes the links to the README."""
CODE = re.compile(
    r"(^(?P<fence> *(?:```+|~~~+)).*?^(?P=fence) *$|(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`))", re.S | re.M
)
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)(?=[)#\s])")
PICTURE = re.compile(r"^!\[.*\]\(.*\)$", re.M)
FORMULA = re.compile(r"\$\$(?P<display>.+?)\$\$|(?<![\\$\w])\$(?P<inline>[^\s$](?:[^$\n]*[^\s$])?)\$(?![\w$])", re.S)
NOT_SEARCHED = "---\nsearch:\n  exclude: true\n---\n"
WORKER = "https://unpkg.com/iframe-worker/shim"
"""Loaded by pages that are opened as files, for the search; :func:`search_without_server` takes its place."""
FILE_WORKER = Path("assets", "javascripts", "file_worker.js")
"""Script that :func:`search_without_server` writes, by which a site that was built before is recognised."""


def main(arguments: list[str] | None = None) -> int:
    """Build or serve the site, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=PROJECT / "site", metavar="FOLDER", help="of the site (site/)")
    parser.add_argument("--serve", action="store_true", help="serve the site, and build again after each change")
    parser.add_argument("--address", default="localhost:8000", metavar="HOST:PORT", help="of --serve (%(default)s)")
    parser.add_argument(
        "--live", nargs="*", default=NAMES, choices=NAMES, metavar="NAME", help="environments that run (default: all)"
    )
    options = parser.parse_args(arguments)
    if not options.serve and not is_replaceable(options.output):
        parser.error(f"--output: {options.output} is no site of this program, and would be deleted: name a new folder")
    with tempfile.TemporaryDirectory(prefix="warpdrive-docs-") as name:
        stage = Path(name)
        live = live_pages(options.live)
        gather(stage, live)
        return serve(stage, options.address, live) if options.serve else build(stage, options.output)


def is_replaceable(output: Path) -> bool:
    """Return True if a folder is absent, empty, or a site that :func:`build` wrote."""
    return not output.exists() or not any(output.iterdir()) or (output / FILE_WORKER).is_file()


def build(stage: Path, output: Path) -> int:
    """Build the site, and replace the folder ``output`` by it; return the exit status."""
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    built = subprocess.run(command, cwd=stage, capture_output=True, text=True)
    printed = (built.stdout + built.stderr).partition("Traceback")[0]
    print(printed if sys.stdout.isatty() else re.sub(r"\x1b\[[0-9;]*m", "", printed), end="")
    if built.returncode == 0:
        search_without_server(stage / "site")
        shutil.rmtree(output, ignore_errors=True)
        shutil.copytree(stage / "site", output)
        print(f"Open {output / 'index.html'} in a browser")
    return built.returncode


def serve(stage: Path, address: str, live: Mapping[str, str]) -> int:
    """Run Zensical's server until it is interrupted; gather pages again when a source changes."""
    with subprocess.Popen([sys.executable, "-m", "zensical", "serve", "--dev-addr", address], cwd=stage) as server:
        gathered = time.time()
        try:
            while server.poll() is None:
                time.sleep(0.5)
                if max(path.stat().st_mtime for path in sources()) > gathered:
                    gathered = time.time()
                    gather(stage, live)
        except KeyboardInterrupt:
            pass
        finally:
            server.terminate()  # also after an error in a page: leaving the block waits for the server
    return server.returncode or 0


def sources() -> Iterator[Path]:
    """Yield the files that pages are made of."""
    for pattern in SOURCES:
        yield from (path for path in PROJECT.glob(pattern) if path.is_file())


def gather(stage: Path, live: Mapping[str, str]) -> None:
    """Write the configuration, pages, pictures and shown sources; leave files that have not changed alone.

    Args:
        stage: The folder.
        live: Pages in which environments run, by name.
    """
    shown: set[str] = set()
    pages: dict[str, str | bytes] = {}
    for path in sources():
        name = path.relative_to(PROJECT).as_posix()
        place = place_in_site(name)
        if place is None or name == "README.md":
            continue
        if path.suffix == ".ipynb":
            pages |= notebook_page(path, place, shown.add)
        elif path.suffix == ".md":
            pages[place] = page(path.read_text(encoding="utf-8"), name, place, shown.add)
        else:
            pages[place] = path.read_bytes()
    for name, html in live.items():
        place = f"environments/{name}.md"
        pages |= {place: with_live(str(pages[place]), name), f"environments/live/{name}.html": html}
    pages |= {place_of_source(name): source_page(PROJECT / name) for name in shown}
    for place, content in pages.items():
        write(stage / "pages" / place, content)
    write(stage / "zensical.toml", (PROJECT / "zensical.toml").read_bytes())
    write(stage / "docstring_roles.py", (PROJECT / "tools" / "docstring_roles.py").read_bytes())
    lay_out_packages(stage / "package" / "warpdrive")


def place_in_site(name: str) -> str | None:
    """Return the path within the site of a file of the repository; None if it is not a page."""
    if name in ELSEWHERE:
        return ELSEWHERE[name]
    folder, _, rest = name.partition("/")
    if folder == "docs":
        return rest
    if folder == "tutorials" and name.endswith(".ipynb"):
        return name.replace(".ipynb", ".md")
    return name if name.startswith("benchmarks/results/") and name.endswith(".md") else None


def place_of_source(name: str) -> str:
    """Return the path within the site of the page that shows a file, which cannot be hidden there."""
    return f"source/{name.removeprefix('.')}.md"


def write(path: Path, content: str | bytes) -> None:
    """Write a file, unless it has this content already: the server builds pages again whose files were written."""
    data = content.encode() if isinstance(content, str) else content
    if not (path.is_file() and path.read_bytes() == data):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def page(text: str, name: str, place: str, show: Callable[[str], None]) -> str:
    """Return a page with links and formulas as the site has them.

    Args:
        text: The page in Markdown, with links relative to its place in the repository.
        name: Its path in the repository.
        place: Its path in the site.
        show: Called with the path of each file or folder that is linked to and is no page.

    Returns:
        The page, with links relative to its place in the site.
    """

    def link(found: re.Match[str]) -> str:
        target = os.path.normpath(os.path.join(os.path.dirname(name), found[1]))
        there = place_in_site(target)
        if there is None and (PROJECT / target).exists():
            show(target)
            there = place_of_source(target)
        return os.path.relpath(there, os.path.dirname(place) or ".") if there else found[1]

    parts = CODE.split(text)  # text, code, and the two groups within code, in turn
    names = {} if place.startswith("reference/api/") else dict(pages_of_names())
    written, line = [], ""
    for index in range(0, len(parts), 4):
        line = (line + parts[index]).rpartition("\n")[2]
        written.append(FORMULA.sub(mathml, LINK.sub(link, parts[index])))
        for code in parts[index + 1 : index + 2]:
            called = code.strip("`").replace("wd.", "warpdrive.", 1)
            if called in names and not line.startswith("#") and not re.search(r"\[[^]]*$", line):
                code = f"[{code}]({os.path.relpath(names.pop(called), os.path.dirname(place) or '.')}#{called})"
            written.append(code)
            line = (line + code).rpartition("\n")[2]
    return "".join(written)


def with_live(text: str, name: str) -> str:
    """Return the page of an environment with the running environment in place of its picture."""
    frame = f'<iframe class="live" src="live/{name}.html" title="{name}, running" loading="lazy"></iframe>'
    words = f"[In a page of its own](live/{name}.html) · [How it works](../guides/web.md)"
    return PICTURE.sub(f"{frame}\n\n{words}", text, count=1)


@functools.cache
def pages_of_names() -> tuple[tuple[str, str], ...]:
    """Return the public names of the package, and the page of each in the site; their first mention links to it."""
    pages = {path: path.read_text(encoding="utf-8") for path in sorted((PROJECT / "docs/reference/api").glob("*.md"))}
    return tuple(
        (name, path.relative_to(PROJECT / "docs").as_posix())
        for path, text in pages.items()
        for name in re.findall(r"^::: (warpdrive\.\w+)$", text, re.MULTILINE)
    )


def mathml(found: re.Match[str]) -> str:
    """Return a formula as MathML, which browsers draw without a script."""
    display = found["display"] is not None
    markup = convert((found["display"] or found["inline"]).strip(), display="block" if display else "inline")
    # Markdown would read these characters within an inline element
    for character in "*_`[]\\":
        markup = markup.replace(character, f"&#{ord(character)};")
    markup = markup.replace("<mover>", '<mover accent="true">')
    return f"\n<div>{markup}</div>\n" if display else f"<span>{markup}</span>"  # a line with math in front is a block


def notebook_page(path: Path, place: str, show: Callable[[str], None]) -> dict[str, str | bytes]:
    """Return the page of a notebook with its outputs, its pictures and the notebook itself, by place in the site."""
    notebook, files = nbformat.read(path, as_version=4), f"{path.stem}_files"
    text, resources = MarkdownExporter().from_notebook_node(notebook, {"output_files_dir": files})

    def framed(found: re.Match[str]) -> str:
        """Return an iframe that loads its page from a file once it is in sight."""
        name = f"{files}/page_{len(resources['outputs'])}.html"
        resources["outputs"][name] = unescape(found[1]).encode()
        return f'<iframe loading="lazy" src="{name}"'

    text = re.sub(r'<iframe srcdoc="([^"]*)"', framed, text)
    heading, _, rest = page(text.strip(), path.relative_to(PROJECT).as_posix(), place, show).partition("\n")
    folder = os.path.dirname(place)
    return {
        **{f"{folder}/{name}": data for name, data in resources["outputs"].items()},
        f"{folder}/{path.name}": path.read_bytes(),
        place: f"{heading}\n\n[Download this notebook]({path.name})\n{rest}\n",
    }


def source_page(path: Path) -> str:
    """Return a page with a source file, or with the files of a folder and their summaries."""
    name = path.relative_to(PROJECT).as_posix()
    if path.is_dir():
        entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith(("__", ".")))
        rows = [f"| `{entry.name}{'/' * entry.is_dir()}` | {summary(entry)} |" for entry in entries]
        return "\n".join([NOT_SEARCHED, f"# {name}", "", "| file | content |", "| --- | --- |", *rows, ""])
    language = {".py": "python", ".cu": "cuda", ".cuh": "cuda"}.get(path.suffix, path.suffix.lstrip(".") or "text")
    text = path.read_text(encoding="utf-8")
    return f"{NOT_SEARCHED}\n# {path.name}\n\n`{name}`\n\n`````{language}\n{text}\n`````\n"


def summary(path: Path) -> str:
    """Return the first line of the docstring of a Python file or package, or ""."""
    module = path / "__init__.py" if path.is_dir() else path
    if module.suffix != ".py" or not module.is_file():
        return ""
    return (ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def lay_out_packages(root: Path) -> None:
    """Link to the folders of the packages as they are installed, for mkdocstrings, unless that has been done."""
    if not root.exists():
        root.mkdir(parents=True)
        for entry in [*(PROJECT / "warpdrive").iterdir(), PROJECT / "training", PROJECT / "envs"]:
            (root / entry.name).symlink_to(entry)


def search_without_server(site: Path) -> None:
    """Make the search work in pages opened as files: browsers load no worker from a file, but from text."""
    (worker,) = (site / "assets" / "javascripts" / "workers").glob("search.*.js")
    script = site / FILE_WORKER
    script.write_text(
        f"const source = {json.dumps(worker.read_text(encoding='utf-8'))};\n"
        'if (location.protocol === "file:") {\n'
        "  const FromFile = window.Worker;\n"
        '  const url = () => URL.createObjectURL(new Blob([source], { type: "text/javascript" }));\n'
        "  window.Worker = class extends FromFile { constructor() { super(url()); } };\n"
        "}\n",
        encoding="utf-8",
    )
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(WORKER, os.path.relpath(script, path.parent)), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
