"""The package as others get it: built, installed into an environment of its own, and used there."""

import os
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
from hashlib import sha256
from pathlib import Path

import pytest

import aam

REPOSITORY = Path(__file__).resolve().parents[2]
PARTS = ["aam", "snakemake_logger_plugin_aam", "workflow", "profiles", "benchmarks"]
FILES = ["Snakefile", "pyproject.toml", "README.md", "LICENSE"]
WORKFLOW = [f"workflow/{name}" for name in ("Snakefile", "envs", "report", "rules", "scripts")]
RUN = ["Snakefile", "profiles", "benchmarks/__init__.py", "benchmarks/speed", *WORKFLOW]
"""What `aam run` reads of the repository beside the package."""
BUILD = "import sys, setuptools.build_meta as build; getattr(build, sys.argv[1])(sys.argv[2])"
SAMPLES = 40
DIST = runpy.run_path(str(REPOSITORY / ".ci" / "dist.py"))


def run(*command: str | Path, folder: Path) -> str:
    """Run a command, without a way from the environment to the checkout, and return its output."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the unpacked source distribution of a copy of the checkout."""
    # `setuptools` writes beside what it builds.
    pytest.importorskip("setuptools", minversion="77")
    source = tmp_path_factory.mktemp("source")
    copy_sources(source)
    archives = tmp_path_factory.mktemp("sdist")
    run(sys.executable, "-c", BUILD, "build_sdist", archives, folder=source)
    (archive,) = archives.iterdir()
    assert archive.name == f"aam-{aam.__version__}.tar.gz"
    with tarfile.open(archive) as handle:
        handle.extractall(archives, filter="data")
    return archives / archive.name.removesuffix(".tar.gz")


@pytest.fixture(scope="module")
def prefix(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment with the wheel of the source distribution, far from the checkout."""
    wheels = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-c", BUILD, "build_wheel", wheels, folder=sdist)
    (wheel,) = wheels.glob("*.whl")
    prefix = tmp_path_factory.mktemp("elsewhere") / "environment"
    venv.create(prefix, symlinks=True, with_pip=False)
    pip = [sys.executable, "-m", "pip", "--python", prefix / "bin" / "python", "install"]
    run(*pip, "--quiet", "--no-deps", "--no-index", wheel, folder=prefix)
    # Dependencies are those of the tests. A folder that a `.pth` file names may hold further such
    # files, and these are not read: the link to the checkout, if the package is installed so.
    (site,) = prefix.glob("lib/python*/site-packages")
    names = ("purelib", "platlib")
    folders = dict.fromkeys(sysconfig.get_path(name) for name in names)
    (site / "dependencies.pth").write_text("\n".join(folders) + "\n")
    return prefix


def copy_sources(source: Path) -> None:
    """Copy what the package is built from."""
    for name in PARTS:
        shutil.copytree(
            REPOSITORY / name, source / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    for name in FILES:
        shutil.copy(REPOSITORY / name, source / name)


def sources(*paths: str) -> list[str]:
    """Return the files of the checkout below some paths, without what Python leaves there."""
    files = []
    for path in paths:
        root = REPOSITORY / path
        candidates = root.rglob("*") if root.is_dir() else [root]
        files += [file for file in candidates if file.is_file()]
    return sorted(str(file.relative_to(REPOSITORY)) for file in files if file.suffix != ".pyc")


def test_every_file_of_package_and_workflow_is_installed(prefix: Path) -> None:
    (site,) = prefix.glob("lib/python*/site-packages")
    packages = sources("aam", "snakemake_logger_plugin_aam")
    assert len(packages) > 200
    assert [name for name in packages if not (site / name).is_file()] == []
    shared = prefix / "share" / "aam"
    assert [name for name in sources(*RUN) if not (shared / name).is_file()] == []


def test_a_study_is_described_from_a_folder_that_is_not_the_checkout(
    prefix: Path, tmp_path: Path
) -> None:
    command = prefix / "bin" / "aam"
    assert run(command, "--version", folder=tmp_path) == f"aam {aam.__version__}\n"
    write_study(tmp_path)
    run(command, "init", "table.tsv", "metadata.tsv", "--output", "mine.yaml", folder=tmp_path)
    printed = run(command, "check", "mine.yaml", "--cores", "1", folder=tmp_path)
    assert f"{SAMPLES} samples" in printed
    assert (tmp_path / "results" / "mine" / "check.txt").read_text().strip() in printed
    code = "import aam, sys; print(aam.__file__, aam.reference('v4'), *sys.path, sep='\\n')"
    package, _, *path = run(prefix / "bin" / "python", "-c", code, folder=tmp_path).splitlines()
    assert package.startswith(f"{prefix}/lib/")
    assert str(REPOSITORY) not in path


def test_the_rule_that_measures_speed_finds_its_code(prefix: Path, tmp_path: Path) -> None:
    scripts = prefix / "share" / "aam" / "workflow" / "scripts"
    code = f"import sys; sys.path.insert(0, {str(scripts)!r}); import stage_job, benchmarks.speed"
    printed = run(
        *(prefix / "bin" / "python", "-c", f"{code}; print(benchmarks.speed.__file__)"),
        folder=tmp_path,
    )
    assert printed.strip() == str(prefix / "share/aam/benchmarks/speed/__init__.py")


def test_the_same_sources_are_the_same_bytes(tmp_path: Path) -> None:
    """Whoever builds a release can compare it with the published one."""
    pytest.importorskip("setuptools", minversion="77")
    digests = []
    for place, umask in (("one", 0o022), ("another", 0o077)):
        before = os.umask(umask)
        try:
            (tmp_path / place).mkdir()
            copy_sources(tmp_path / place)
            for number, path in enumerate(sorted((tmp_path / place).rglob("*"))):
                os.utime(path, (number, number + umask))
            DIST["build"](tmp_path / place, tmp_path / place / "dist", 1_700_000_000)
        finally:
            os.umask(before)
        built = sorted((tmp_path / place / "dist").iterdir())
        digests.append([(path.name, sha256(path.read_bytes()).hexdigest()) for path in built])
    assert len(digests[0]) == 2
    assert digests[0] == digests[1]


def write_study(folder: Path) -> None:
    """Write the table and the metadata of a study of one feature."""
    samples = [f"s{row}" for row in range(SAMPLES)]
    counts = "\t".join(["9"] * SAMPLES)
    header = "#OTU ID\t" + "\t".join(samples)
    (folder / "table.tsv").write_text(f"{header}\n{'ACGT' * 10}\t{counts}\n")
    rows = [f"{name}\t{row + 20}" for row, name in enumerate(samples)]
    (folder / "metadata.tsv").write_text("\n".join(["sample-id\tage", *rows]) + "\n")
