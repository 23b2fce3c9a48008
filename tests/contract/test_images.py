"""The images of Docker and Apptainer: one base, one list of files, one script of steps."""

import json
import re
import tomllib
from pathlib import Path
from subprocess import check_output

REPOSITORY = Path(__file__).resolve().parents[2]


def found(pattern: str, name: str) -> list:
    return re.findall(pattern, (REPOSITORY / name).read_text(encoding="utf-8"), re.MULTILINE)


def test_both_are_made_alike_of_pinned_versions_and_need_no_root() -> None:
    words, values = zip(*found(r"^([A-Z]+) (.*)", "Dockerfile"), strict=True)
    base, argument, copied, steps, path, caches, _, user, entry = values
    assert list(words) == [
        "FROM",
        "ARG",
        "COPY",
        "RUN",
        "ENV",
        "ENV",
        "WORKDIR",
        "USER",
        "ENTRYPOINT",
    ]
    assert re.fullmatch(r"python:\d+\.\d+\.\d+-slim-\w+ [1-9]\d*:[1-9]\d*", f"{base} {user}")
    names, index = found(r"^!(.*)", ".dockerignore"), argument.partition("=")[0]
    expected = [f"Bootstrap: docker From: {base} %arguments {argument} %files"]
    expected += [f"{name} /opt/aam/{name}" for name in names]
    expected += [f"%post export {index}={{{{ {index} }}}} {steps} %environment export {path}"]
    assert caches == "XDG_CACHE_HOME=/tmp/aam-cache MPLCONFIGDIR=/tmp/aam-cache/matplotlib"
    # A user's own folder: Apptainer shares /tmp with the host.
    expected += ["export XDG_CACHE_HOME=${XDG_CACHE_HOME:-/tmp/aam-cache-$(id -u)}"]
    expected += ["export MPLCONFIGDIR=${MPLCONFIGDIR:-$XDG_CACHE_HOME/matplotlib}"]
    expected += ["%runscript exec", *json.loads(entry), '"$@"']
    assert " ".join(found(r"^(?!#) *(.+)", "aam.def")) == " ".join(expected)

    assert found(r"^[^!].*", ".dockerignore") == ["*", "**/__pycache__"]
    assert copied == ". /opt/aam"
    assert [name for name in names if not (REPOSITORY / name).exists()] == []
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = ["aam", "Makefile", "Snakefile", "workflow/Snakefile", "profiles/default"]
    needed += re.findall(r"/opt/aam/(workflow/\w+\.sh)", steps + entry) + [project["readme"]]
    needed += found(r"^\$\(STAMP\): (.*)", "Makefile")[0].split()
    assert [n for n in needed if not any(Path(n).is_relative_to(name) for name in names)] == []
    # `make env` alone installs what is Python's, by the constraints.
    script = steps.removeprefix("bash /opt/aam/")
    assert found(r"^make .*|.*\bpip\b.*", script) == ["make env"]
    (command,) = found(r"^INSTALL = .*", "Makefile")
    assert " -c constraints.txt " in command


def test_options_are_those_of_the_workflow_and_a_command_is_run(tmp_path: Path) -> None:
    (tmp_path / "snakemake").symlink_to("/bin/echo")
    run = ["env", "-i", f"PATH={tmp_path}:/usr/bin:/bin", f"TMPDIR={tmp_path}", "HOME=/nowhere"]
    run += ["bash", str(REPOSITORY / "workflow" / "run_in_image.sh")]
    assert check_output(run, text=True) == "--snakefile /opt/aam/Snakefile\n"
    assert check_output([*run, "-n", "a b"], text=True) == "--snakefile /opt/aam/Snakefile -n a b\n"
    variables = check_output([*run, "env"], text=True).splitlines()
    assert "USER=aam" in variables
    assert f"HOME={tmp_path}" in {line.rpartition("/")[0] for line in variables}
