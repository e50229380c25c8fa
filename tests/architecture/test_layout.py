"""The shape of the tree, checked by machine: import order, doors of heavy libraries, light start, small rooms."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("orchestrator", "dashboards", "sweeps", "jobs", "cluster", "models")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))

# Library -> the files (or folders) that may import it. Everything else goes through them.
DOORS: dict[str, tuple[str, ...]] = {
    "torch": (
        "models/",
        "jobs/trainer.py",
        "jobs/searcher.py",
        "jobs/stack.py",
        "jobs/pack_loop.py",
        "jobs/pack_state.py",
        "jobs/numerics.py",
        "jobs/optimizer.py",
        "jobs/lr_schedule.py",
        "jobs/data.py",
        "jobs/evaluation.py",
        "jobs/process_group.py",
        "jobs/tensors.py",
    ),
    "safetensors": ("jobs/tensors.py", "jobs/pack_loop.py"),
    "submitit": ("cluster/submitit_backend.py",),
    "mlflow": ("orchestrator/gather/mlflow_export.py", "orchestrator/gather/mlflow_read.py"),
    "pyarrow": ("sweeps/tables.py", "orchestrator/gather/"),
    "omegaconf": ("sweeps/",),
    "scipy": ("sweeps/analysis/",),
    "statsmodels": ("sweeps/analysis/",),
    "matplotlib": ("dashboards/charts.py", "dashboards/charts/"),
    "jinja2": ("dashboards/",),
    "click": ("orchestrator/cli/",),
    "rich": ("orchestrator/cli/",),
    "ray": (),
    "deepspeed": (),
}
TORCH_FREE = ("models/config.py", "models/flops.py")


def imports(path: Path) -> set[str]:
    """Top-level names of everything a file imports, wherever in the file."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def test_imports_follow_the_rows() -> None:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-logo", "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("library", DOORS)
def test_a_heavy_library_is_imported_only_by_its_doors(library: str) -> None:
    strangers = [
        str(path.relative_to(ROOT))
        for path in SOURCES
        if library in imports(path) and not str(path.relative_to(ROOT)).startswith(DOORS[library] or ("-",))
    ]
    assert not strangers, f"{library} is imported by {strangers}"


def test_descriptions_are_torch_free() -> None:
    assert [path for path in TORCH_FREE if "torch" in imports(ROOT / path)] == []


def test_package_files_hold_one_docstring_and_no_imports() -> None:
    for path in SOURCES:
        if path.name == "__init__.py":
            body = ast.parse(path.read_text()).body
            assert len(body) == 1, path
            assert isinstance(body[0], ast.Expr), path
            assert ast.get_docstring(ast.parse(path.read_text())), path


def test_rooms_are_small() -> None:
    large = {str(p.relative_to(ROOT)): n for p in SOURCES if (n := len(p.read_text().splitlines())) > 300}
    assert not large, f"files that outgrew their room: {large}"


def test_no_file_is_named_after_a_library_it_imports() -> None:
    assert [path for path in SOURCES if path.stem in imports(path) - set(PACKAGES)] == []


def test_tests_and_docker_are_no_packages() -> None:
    assert not list((ROOT / "tests").rglob("__init__.py"))
    assert not list((ROOT / "docker").rglob("*.py"))


SLOW = ("torch._dynamo", "torch._inductor", "torch.distributed.fsdp", "torch.onnx", "sympy", "scipy", "pandas")


def test_a_worker_that_trains_imports_no_compiler(tmp_path: Path) -> None:
    """Every pack is a process of its own: what it imports is paid for again and again. The compiler takes as long as
    torch itself, and some of torch's functions import it behind the scenes."""
    config = {"task": {"name": "memorize", "values": 16}, "model": {"width": 16}, "optimizer": {"lr": 0.01}}
    config |= {"steps": 2, "evaluate": {"points": 1}, "search": {"members": 2}}
    program = (
        "import json, sys; from pathlib import Path\n"
        "from jobs.attempt import carry_out\n"
        "place = Path(sys.argv[1]); place.mkdir(parents=True)\n"
        "member = {'run': 'r1', 'config': 0, 'seed': 1}\n"
        "launch = {'pack': 'p1', 'attempt': 1, 'name': 'x', 'runner': 'search', 'root': '.', 'members': [member]}\n"
        "(place / 'launch.json').write_text(json.dumps({**launch, 'configs': [json.loads(sys.argv[2])]}))\n"
        "code = carry_out(place, {})\n"
        f"print(code, [name for name in {SLOW!r} if name in sys.modules])\n"
    )
    command = [sys.executable, "-P", "-c", program, str(tmp_path / "p1" / "a1"), json.dumps(config)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout == "0 []\n", done.stdout + done.stderr


HEAVY = ("numpy", "pyarrow", "torch", "mlflow", "ray", "submitit", "omegaconf", "scipy", "matplotlib", "pandas")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    """A workspace with a sweep that was planned and has ended, its cache, and a run that failed there."""
    root, cache = tmp_path_factory.mktemp("looks"), tmp_path_factory.mktemp("cache")
    program = (
        "import sys; from pathlib import Path\n"
        "from cluster.local_backend import LocalBackend\n"
        "from jobs.workspace import Workspace\n"
        "from orchestrator.desired import read_desired\n"
        "from orchestrator.loop import Loop\n"
        "from orchestrator.planning import commit, prepare\n"
        "from orchestrator.policy import LOCAL\n"
        "space = Workspace(Path(sys.argv[1]))\n"
        "commit(space, prepare(space, sys.argv[2]))\n"
        "loop = Loop(space, LocalBackend(), LOCAL, code='')\n"
        "loop.watch(); loop.close()\n"
        "print(next(run for run, d in read_desired(space).runs.items() if d.cell.labels['arm'] == 'bad'))\n"
    )
    file = root / "looks.yaml"
    file.write_text("name: looks\nrunner: toy\nfactors: {arm: {good: {}, bad: {faults: {gpu_oom_at: 1}, stack: b}}}\n")
    command = [sys.executable, "-P", "-c", program, str(root), str(file)]
    env = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root, env=env)
    assert done.returncode == 0, done.stderr
    return root, cache, done.stdout.strip()


LOOKS = [
    *(["status"], ["status", "--json"], ["show", "RUN"], ["logs", "RUN"]),
    *(["errors"], ["errors", "--group"], ["cost"], ["nodes"], ["retry", "--dry-run"]),
]


@pytest.mark.parametrize("arguments", LOOKS, ids=" ".join)
def test_a_look_at_a_sweep_that_has_run_imports_nothing_heavy(
    arguments: list[str], finished: tuple[Path, Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, cache, run = finished
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    said = look([run if word == "RUN" else word for word in arguments], root)
    assert len(said.splitlines()) > 2, "it has something to show"


@pytest.mark.parametrize("arguments", [["--help"], ["status"], ["status", "--json"], ["compare", "--help"]])
def test_a_look_imports_nothing_heavy(arguments: list[str], tmp_path: Path) -> None:
    """Counts, not seconds: the modules that `--help` and `status` load in a fresh process."""
    look(arguments, tmp_path)


def look(arguments: list[str], root: Path) -> str:
    """Run a verb in a fresh process that then says which heavy modules it has loaded; what it printed."""
    program = (
        "import sys\n"
        "from orchestrator.cli.main import main\n"
        "try:\n    main(sys.argv[1:])\n"
        "except SystemExit as exit:\n    assert not exit.code, exit.code\n"
        f"print('LOADED', [name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    command = [sys.executable, "-P", "-c", program, "--root", str(root), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "LOADED []" in done.stdout, done.stdout
    return done.stdout
