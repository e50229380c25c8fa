"""Site profiles and the scripts that come of them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from cluster.backend import LaunchRequest, PermanentError, Resources
from cluster.fake_slurm.control import FakeSlurm
from cluster.slurm import script
from cluster.slurm.profile import OWNED, Profile, load_profile, read_profile, share_files
from cluster.submitit_backend import SlurmBackend, render


def write(folder: Path, text: str) -> Path:
    path = folder / "site.yaml"
    path.write_text(text)
    return path


def test_a_profile_with_everything(tmp_path: Path) -> None:
    profile = read_profile(
        write(
            tmp_path,
            "partition: a100\naccount: p123\nqos: normal\ngpus_as: gpus-per-node\ngpu_type: a100\n"
            "modules: [cuda/12.4]\nsetup:\n  - source /opt/x\ncontainer: [apptainer, exec, --nv, i.sif]\n"
            "minutes: 60\ngroup_readable: true\n"
            "licenses: matlab@1\nsbatch:\n  mail-type: FAIL\n",
        )
    )
    assert profile.sbatch == {"mail-type": "FAIL", "licenses": "matlab@1"}
    found = script.parameters(Resources(cpus=4, gpus=2), profile)
    assert (found["gpus_per_node"], found["time"], found["account"]) == ("a100:2", 60, "p123")
    assert found["additional_parameters"] == {"mail-type": "FAIL", "licenses": "matlab@1"}
    assert script.setup_lines(profile) == ["module load cuda/12.4", "source /opt/x"]
    body = script.body(Path("/r/b1"), 0, Resources(), profile, {"PYTHONPATH": "/r/code/x y"})
    assert "apptainer exec --nv i.sif" in body
    assert "export PYTHONPATH='/r/code/x y'" in body
    assert "umask 0027" in body
    assert body.index("scontrol requeue") > body.index("apptainer")  # by the batch shell, outside the container


@pytest.mark.parametrize(
    ("profile", "own", "excluded"),
    [
        (Profile(exclude="n1"), "n2,n3", "n1,n2,n3"),
        (Profile(), "n2", "n2"),
        (Profile(exclude="n1"), None, "n1"),
        (Profile(exclude="n1", sbatch={"exclude": "n4"}), "n2", "n1,n4,n2"),
    ],
)
def test_a_packs_own_exclude_is_added_to_the_profiles(profile: Profile, own: str | None, excluded: str) -> None:
    found = script.parameters(Resources(extra=(("exclude", own),) if own else ()), profile)
    assert found["exclude"] == excluded
    assert "exclude" not in found["additional_parameters"]


def test_every_mistake_is_told_with_its_line(tmp_path: Path) -> None:
    path = write(
        tmp_path, "partition: 3\npartitoin: x\narray: 1-5\nqos: a\nqos: b\nsbatch:\n  requeue: true\n  Bad Key: 1\n"
    )
    with pytest.raises(PermanentError) as caught:
        read_profile(path)
    text = str(caught.value)
    for part in (
        "line 1: partition",
        "line 2: partitoin",
        "did you mean partition",
        "line 3: array is set by",
        "line 5: qos",
    ):
        assert part in text
    assert "requeue is set by the orchestrator" in text
    assert "Bad Key is no sbatch option" in text


@pytest.mark.parametrize("option", sorted(OWNED))
def test_what_is_ours_is_refused(tmp_path: Path, option: str) -> None:
    with pytest.raises(PermanentError, match="the orchestrator itself"):
        read_profile(write(tmp_path, f"{option}: 1\n"))
    with pytest.raises(PermanentError, match="sets itself"):
        script.parameters(Resources(extra=((option, "1"),)), Profile())


@pytest.mark.parametrize(("login", "then"), [(0o077, 0o027), (0o022, 0o022), (0o007, 0o007)])
def test_files_are_shared_whatever_umask_the_login_has(tmp_path: Path, login: int, then: int) -> None:
    before = os.umask(login)
    try:
        share_files(Profile())
        assert os.umask(login) == login
        share_files(Profile(group_readable=True))
    finally:
        assert os.umask(before) == then


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("arr: 1-5", "line 1: arr is set by the orchestrator itself"),  # sbatch understands it as --array
        ("sbatch: {depend: 'afterok:1'}", "line 1: depend is set by"),
        ("tasks-per-node: 4", "tasks-per-node is set by"),
        ("o: /tmp/x", "line 1: o is no sbatch option"),
        ("time: 30", "line 1: time is minutes here"),
        ("mem: 8G", "line 1: mem is memory_mb here"),
        ("sbatch: 5", "line 1: sbatch is a mapping"),
    ],
)
def test_what_would_change_what_is_ours_by_another_name_is_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(PermanentError) as caught:
        read_profile(write(tmp_path, text + "\n"))
    assert says in str(caught.value)


def test_profiles_are_found_by_name_path_and_default(tmp_path: Path) -> None:
    env = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert load_profile(None, env) == Profile()
    folder = tmp_path / "orchestrate" / "sites"
    folder.mkdir(parents=True)
    (folder / "default.yaml").write_text("partition: d\n")
    (folder / "alps.yaml").write_text("partition: a\n")
    assert load_profile(None, env).partition == "d"
    assert load_profile("alps", env).partition == "a"
    assert load_profile(None, {**env, "ORCHESTRATE_SITE": str(folder / "alps.yaml")}).partition == "a"
    with pytest.raises(PermanentError, match=r"alps, default"):
        load_profile("jura", env)


def test_what_is_no_mapping_is_refused(tmp_path: Path) -> None:
    for text in ("- a\n", "a: [\n", "just words\n"):
        with pytest.raises(PermanentError):
            read_profile(write(tmp_path, text))


def test_resources_of_a_run_pass_through(tmp_path: Path) -> None:
    extra = (("licenses", "x"), ("constraint", "h100"))
    found = script.parameters(Resources(cpus=8, memory_mb=2000, minutes=30, extra=extra), Profile(constraint="a100"))
    assert found["constraint"] == "h100"
    assert found["additional_parameters"] == {"licenses": "x"}
    assert (found["mem"], found["time"], found["cpus_per_task"]) == ("2000M", 30, 8)


def test_jobs_of_several_nodes_start_one_process_a_gpu() -> None:
    resources = Resources(cpus=16, gpus=4, nodes=2)
    found = script.parameters(resources, Profile())
    assert (found["nodes"], found["ntasks_per_node"], found["cpus_per_task"], found["gres"]) == (2, 4, 4, "gpu:4")
    body = script.body(Path("/r/b1"), 0, resources, Profile(srun=("--cpu-bind=cores",)), {})
    step = "srun --ntasks=8 --ntasks-per-node=4 --cpus-per-task=4 --kill-on-bad-exit=0 --wait=30 --cpu-bind=cores"
    assert step in body
    assert "MASTER_PORT" in body
    single = script.body(Path("/r/b1"), 0, Resources(gpus=4), Profile(), {})
    assert "srun" not in single


def test_submitit_writes_the_options_and_checks_their_names(tmp_path: Path, slurm: FakeSlurm) -> None:
    (tmp_path / "b1").mkdir()
    backend = SlurmBackend(Profile(partition="gpu", sbatch={"mail-type": "FAIL"}))
    request = LaunchRequest("orc-p1-a1", ("true",), "/", "l", "r", resources=Resources(cpus=2, minutes=60))
    text = backend._submitter.text(tmp_path / "b1", 0, 12, [request])
    lines = [line for line in text.splitlines() if line.startswith("#SBATCH")]
    for line in (
        "--array=0-11", "--job-name=orc-b1", f"--comment=orchestrate:{tmp_path}/b1", "--open-mode=append", "--requeue",
        "--signal=B:USR2@120", "--cpus-per-task=2", "--partition=gpu", "--time=60", "--mail-type=FAIL",
    ):  # fmt: skip
        assert f"#SBATCH {line}" in lines
    assert not any("wckey" in line or "--error" in line for line in lines)
    assert len(lines) == len({line.partition("=")[0] for line in lines}), "no option twice"
    assert "submitit.core._submit" not in text
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    with pytest.raises(ValueError, match="gpus_per_nodes"):
        render(tmp_path, {"gpus_per_nodes": 2}, "true", [])


def test_without_srun_it_says_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PermanentError, match="srun"):
        render(tmp_path, {}, "true", [])
