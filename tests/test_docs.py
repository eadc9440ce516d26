"""The documentation: its code runs and prints what it says, and nothing public is left out."""

from __future__ import annotations

import ast
import io
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d*)?(?:e[-+]?\d+)?")
# Times and counts of evaluations differ from machine to machine.
VARYING = re.compile(r"\d+(?:\.\d+)?(?= s\b| evaluations)")
DIRECTIVE = re.compile(r"^::: ([\w.]+)", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#\s]+)")


@dataclass(frozen=True)
class Code:
    """A block of Python, the line it begins at, and what the page says it prints."""

    source: str
    line: int
    output: str | None


def code_blocks(text: str) -> list[Code]:
    found, blocks = [], list(FENCE.finditer(text))
    for block, after in pairwise([*blocks, None]):
        if block is None or block[1] != "python":
            continue
        output = None
        if after and after[1] == "text" and not text[block.end() : after.start()].strip():
            output = after[2]
        found.append(Code(block[2], text.count("\n", 0, block.start(2)) + 1, output))
    return found


def skeleton(text: str) -> tuple[str, list[float]]:
    """Return a text with its numbers taken out and its spaces made one, and the numbers."""
    text = VARYING.sub("_", text)
    numbers = [float(number.replace(",", "")) for number in NUMBER.findall(text)]
    return " ".join(NUMBER.sub(" # ", text).split()), numbers


def check_output(shown: str, printed: str, where: str) -> None:
    """Compare loosely: the words must agree, the numbers to a quarter of their size."""
    words, numbers = skeleton(shown)
    new_words, new_numbers = skeleton(printed)
    message = f"{where} prints something else now:\n{printed}"
    assert words == new_words, message
    for old, new in zip(numbers, new_numbers, strict=True):
        assert abs(old - new) <= 0.03 + 0.25 * max(abs(old), abs(new)), f"{message}\n{old} {new}"


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Fits this small gain nothing from threads, and on a busy machine they wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    "page", [page for page in PAGES if code_blocks(page.read_text("utf-8"))], ids=name_of
)
def test_code_runs_and_prints_what_the_page_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    try:
        for block in code_blocks(page.read_text("utf-8")):
            where = f"{name_of(page)}, line {block.line}"
            # Blank lines in front: a traceback then shows the page's own line number.
            code = compile("\n" * (block.line - 1) + block.source, str(page), "exec")
            printed = io.StringIO()
            with redirect_stdout(printed):
                exec(code, namespace)
            if block.output is not None:
                check_output(block.output, printed.getvalue(), where)
    finally:
        plt.close("all")


def test_code_blocks_and_their_output_are_found() -> None:
    page = "a\n\n```python\nx = 1\nprint(x)\n```\n\n```text\n1\n```\n```bash\nls\n```\n"
    assert code_blocks(page) == [Code("x = 1\nprint(x)\n", 4, "1\n")]
    assert code_blocks("```python\nx\n```\nand\n```text\n1\n```\n") == [Code("x\n", 2, None)]


@pytest.mark.parametrize(
    ("shown", "printed"),
    [("a 1.0", "b 1.0"), ("a 1.0", "a 2.0"), ("a 1.0", "a"), ("share 0.5", "share -0.5")],
)
def test_a_changed_output_is_noticed(shown: str, printed: str) -> None:
    with pytest.raises(AssertionError, match="prints something else now"):
        check_output(shown, printed, "page, line 1")


def test_small_differences_of_numbers_and_times_are_let_pass() -> None:
    check_output("fit  0.51, 3.0 s, jitter 0", "fit 0.50, 61.2 s,\njitter 1e-08", "page, line 1")


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted((ROOT / "src" / "oakgp").rglob("*.py")):
        parts = path.relative_to(ROOT / "src").with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        if not any(part.startswith("_") for part in parts):
            yield ".".join(parts), ast.parse(path.read_text("utf-8"))


def exported(tree: ast.Module) -> set[str]:
    """Return the names in ``__all__``."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def public(tree: ast.Module) -> set[str]:
    """Return the names of the public classes and functions that a module defines."""
    kinds = (ast.ClassDef, ast.FunctionDef)
    names = {node.name for node in tree.body if isinstance(node, kinds)}
    return {name for name in names if not name.startswith("_")}


def test_everything_public_is_in_the_reference() -> None:
    pages = "\n".join(page.read_text("utf-8") for page in sorted((DOCS / "api").glob("*.md")))
    documented = set(DIRECTIVE.findall(pages))
    trees = dict(modules())
    assert documented <= set(trees), f"no such modules: {sorted(documented - set(trees))}"
    # What a documented package re-exports is shown on the package's page.
    shown = set().union(*(exported(trees[name]) for name in documented))
    left_out = {
        name: sorted(public(tree) - shown)
        for name, tree in trees.items()
        if name not in documented and public(tree) - shown
    }
    assert not left_out, f"add '::: module' to a page in docs/api for {left_out}"


def test_the_navigation_has_every_page() -> None:
    listed = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text("utf-8")))
    assert listed == {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}


def test_every_example_is_named_in_the_documentation() -> None:
    text = "\n".join(page.read_text("utf-8") for page in PAGES)
    for example in sorted((ROOT / "examples").glob("*.py")):
        assert f"examples/{example.name}" in text, f"no page names examples/{example.name}"


@pytest.mark.parametrize("page", [ROOT / "CONTRIBUTING.md", *PAGES], ids=name_of)
def test_links_and_commands_of_a_page_exist(page: Path) -> None:
    text = FENCE.sub("", page.read_text("utf-8"))
    for link in LINK.findall(text):
        if "://" not in link:
            assert (page.parent / link).exists(), f"{name_of(page)} links to {link}"
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    commands = set(re.findall(r"(?:^|`)make ([\w-]+)", page.read_text("utf-8"), re.MULTILINE))
    assert commands <= targets, f"{name_of(page)} names {sorted(commands - targets)}"


def test_the_readme_says_how_to_install() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    command = 'pip install -c constraints.txt -e ".[plots,dev]"'
    assert any(command in block[2].splitlines() for block in FENCE.finditer(text))
