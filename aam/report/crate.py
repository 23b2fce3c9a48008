"""A finished run as others can cite and check it: a Workflow Run RO-Crate.

The folder of a dataset's results becomes the crate, by the file `ro-crate-metadata.json` and copies
of the workflow and the configuration. It follows the profile Workflow Run Crate 0.5
(https://w3id.org/ro/wfrun/workflow/0.5), an extension of RO-Crate 1.1.
"""

import base64
import json
import platform
import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePath
from typing import Any

import h5py
import pyarrow.parquet as pq

from aam.util.atomic import atomic_path, read_json, write_json
from aam.util.digests import file_digest
from aam.util.errors import problem
from aam.util.log import read_work
from aam.util.records import check_digests
from aam.version import __version__

Entity = dict[str, Any]
Record = Mapping[str, str]
"""What an artifact carries about its own making (`aam.util.digests`)."""
METADATA = "ro-crate-metadata.json"
COPIES = "crate"
"""Folder, below the results, of the workflow and the configuration."""
WORKFLOW = f"{COPIES}/workflow/Snakefile"
PARTS = ("envs", "report", "rules", "scripts")
"""Folders of the workflow that the Snakefile needs."""
CONTEXT = [
    "https://w3id.org/ro/crate/1.1/context",
    "https://w3id.org/ro/terms/workflow-run/context",
]
ROOT = "./"
RUN = "#run"
RO_CRATE = "https://w3id.org/ro/crate/1.1"
PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": "Process Run Crate",
    "https://w3id.org/ro/wfrun/workflow/0.5": "Workflow Run Crate",
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": "Workflow RO-Crate",
}
"""Profiles by the address that ends in their version."""
SNAKEMAKE = "https://w3id.org/workflowhub/workflow-ro-crate#snakemake"
ALWAYS: tuple[Entity, ...] = (
    {
        "@id": METADATA,
        "@type": "CreativeWork",
        "about": {"@id": ROOT},
        "conformsTo": [{"@id": RO_CRATE}, {"@id": list(PROFILES)[-1]}],
    },
    {
        "@id": SNAKEMAKE,
        "@type": "ComputerLanguage",
        "name": "Snakemake",
        "url": {"@id": "https://snakemake.readthedocs.io"},
        "identifier": {"@id": "https://doi.org/10.1093/bioinformatics/bts480"},
    },
    {
        "@id": f"{COPIES}/workflow/",
        "@type": "Dataset",
        "name": "workflow",
        "description": "The Snakefile with its rules, scripts, environments and captions.",
    },
    *(
        {"@id": url, "@type": "CreativeWork", "name": name, "version": url.rpartition("/")[2]}
        for url, name in PROFILES.items()
    ),
)
"""What every crate says: what it follows, and what its workflow is written in."""
SOFTWARE = ("numpy", "scipy", "pandas", "pyarrow", "scikit-bio", "scikit-learn", "torch")
"""Packages whose versions can change a result."""
FORMATS = {
    ".arrow": "application/vnd.apache.arrow.file",
    ".biom": "application/x-hdf5",
    ".fasta": "text/x-fasta",
    ".html": "text/html",
    ".json": "application/json",
    ".md": "text/markdown",
    ".nwk": "text/x-nh",
    ".parquet": "application/vnd.apache.parquet",
    ".qza": "application/zip",
    ".svg": "image/svg+xml",
    ".tsv": "text/tab-separated-values",
    ".txt": "text/plain",
    ".yaml": "application/yaml",
}
"""Media types by the ending of a file."""


def write_crate(
    results: Path,
    *,
    inputs: Mapping[str, Path],
    configurations: Sequence[Path],
    workflow: Path,
    license_text: str,
    is_asked_for: Callable[[PurePath], bool],
    settings: Mapping[str, str],
) -> Path:
    """Make a crate of the results of a dataset.

    Parameters
    ----------
    results
        Folder of the dataset's results; its name is the dataset's.
    inputs
        The user's files by what they are, `table` for instance. They are described, not copied.
    configurations
        Configurations of the run, in their order.
    workflow
        Folder that holds the Snakefile of the workflow.
    license_text
        Under which licence the crate is published: an address, or a sentence.
    is_asked_for
        Whether a path below the folder is of a task, model and table of the configurations; others
        do not belong to the run.
    settings
        Digests of the settings that the configurations have for some results, by paths below the
        folder. Results that are not there are not compared.

    Returns
    -------
    Path
        The metadata file. The same results give the same bytes.

    Raises
    ------
    InputError
        There are no results, a result is not what its stage wrote, or a file of the user or a
        setting is not what the results were made from.
    """
    outputs = [path for path in _outputs(results) if is_asked_for(path.relative_to(results))]
    check_digests(outputs)
    for name, digest in settings.items():
        _check_settings(results / name, digest)
    table_record, metadata_record = _records(results)
    readers = {"table": table_record, "sequences": table_record, "metadata": metadata_record}
    input_files = [_input(name, path, readers.get(name, {})) for name, path in inputs.items()]
    started, ended = _times(results)
    copies = _copy(results, configurations, workflow)
    output_files = [_data(results, path) for path in outputs]
    config_files = [_data(results, path) for path in copies]
    software = _software(_versions(outputs, [table_record, metadata_record]))
    data = [*input_files, *config_files, *output_files]
    root = {
        "@id": ROOT,
        "@type": "Dataset",
        "name": f"Results of AAM on {results.name}",
        "description": "Predictions of sample metadata from a microbiome table, with their scores, "
        "and what led to them, by the workflow Attention All Microbes.",
        "datePublished": ended.date().isoformat(),
        "license": license_text,
        "conformsTo": [{"@id": profile} for profile in PROFILES],
        "mainEntity": {"@id": WORKFLOW},
        "mentions": {"@id": RUN},
        "hasPart": [{"@id": WORKFLOW}, {"@id": f"{COPIES}/workflow/"}, *_references(data)],
    }
    run = {
        "@id": RUN,
        "@type": "CreateAction",
        "name": f"Run of AAM on {results.name}",
        "description": f"aam run {' '.join(path.name for path in configurations)}",
        "instrument": {"@id": WORKFLOW},
        "object": _references([*input_files, *config_files]),
        "result": _references(output_files),
        "startTime": started.isoformat(timespec="seconds"),
        "endTime": ended.isoformat(timespec="seconds"),
        "actionStatus": "http://schema.org/CompletedActionStatus",
    }
    graph = [root, _describe_workflow(software), run, *data, *software, *ALWAYS]
    write_json(results / METADATA, {"@context": CONTEXT, "@graph": graph})
    return results / METADATA


def _describe_workflow(software: Sequence[Entity]) -> Entity:
    """Describe the Snakefile, which needs some programs."""
    return {
        "@id": WORKFLOW,
        "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow"],
        "name": "Attention All Microbes",
        "description": "From a feature table to cross-validated predictions of sample metadata.",
        "version": __version__,
        "license": "https://spdx.org/licenses/BSD-3-Clause",
        "encodingFormat": "text/plain",
        "programmingLanguage": {"@id": SNAKEMAKE},
        "softwareRequirements": _references(software),
    }


def _outputs(results: Path) -> list[Path]:
    """Return the files and folders that stages wrote, by the digests next to them."""
    digests = sorted(results.rglob(".*.sha256"))
    paths = [path.with_name(path.name[1:].removesuffix(".sha256")) for path in digests]
    # Snakemake removes what only other stages read.
    outputs = [path for path in paths if path.exists()]
    if not any(path.name in ("report.html", "first.html") for path in outputs):
        hint = "run `aam run` to its end first"
        raise problem(results, "no page of results", "the results of a finished run", hint)
    return outputs


def _records(results: Path) -> tuple[Record, Record]:
    """Return what the imported table and the imported metadata say of their own making."""
    table = _record_of_table(results / "inputs" / "table.biom")
    fields = pq.read_schema(results / "inputs" / "metadata.parquet").metadata
    return table, {key.decode(): value.decode() for key, value in fields.items()}


def _record_of_table(path: Path) -> Record:
    with h5py.File(path) as handle:
        record: Record = json.loads(handle.attrs["generated-by"])
    return record


def _check_settings(path: Path, digest: str) -> None:
    """Check that a result was made with the settings of the configurations, if it is there."""
    if not path.is_file():
        return
    is_table = path.suffix == ".biom"
    record = _record_of_table(path) if is_table else read_json(path).get("provenance", {})
    if record.get("aam.settings", digest) != digest:
        raise problem(
            path,
            "other settings than those of the configurations",
            "results of these configurations",
            "run `aam run` again, or name the configurations of the run",
        )


def _versions(outputs: Sequence[Path], records: Sequence[Record]) -> str:
    """Return the versions of AAM that the artifacts name."""
    reports = [read_json(path) for path in outputs if path.suffix == ".json"]
    everything = [*records, *(report.get("provenance", {}) for report in reports)]
    return ", ".join(sorted({one["aam.version"] for one in everything if "aam.version" in one}))


def _times(results: Path) -> tuple[datetime, datetime]:
    """Return when the first job started and the last one ended, by their logs."""
    logs = [path.read_text(encoding="utf-8") for path in sorted(results.glob("logs/**/*.log"))]
    works = [work for work in map(read_work, logs) if work is not None]
    if not works:
        hint = "keep the folder `logs`, or run again"
        raise problem(results / "logs", "no log of a finished job", "those of the run", hint)
    started_s = min(work.started_s for work in works)
    ended_s = max(work.ended_s for work in works)
    return datetime.fromtimestamp(started_s, UTC), datetime.fromtimestamp(ended_s, UTC)


def _input(name: str, path: Path, record: Record) -> Entity:
    """Describe a file of the user, which is not part of the folder, by its digest.

    The record is that of the artifact which was made from it, if there is one.
    """
    if not path.is_file():
        raise problem(path, "no such file", f"the {name} of the run", "put it back")
    digest = file_digest(path)
    if json.loads(record.get("aam.inputs", "{}")).get(name, digest) != digest:
        got = "another content than that which the results were made from"
        raise problem(path, got, "the file of the run", "put it back, or run `aam run` again")
    # An address that says what the file is, and not where it lay on somebody's disk (RFC 6920).
    encoded = base64.urlsafe_b64encode(bytes.fromhex(digest)).decode().rstrip("=")
    return {
        **_file(path, digest),
        "@id": f"ni:///sha-256;{encoded}",
        "name": path.name,
        "description": f"Input: {name}",
    }


def _copy(results: Path, configurations: Sequence[Path], workflow: Path) -> list[Path]:
    """Copy the workflow and the configurations into the crate; return the latter's copies."""
    with atomic_path(results / COPIES) as partial:
        (partial / "workflow").mkdir(parents=True)
        shutil.copy(workflow / "Snakefile", partial / "workflow")
        for part in PARTS:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(workflow / part, partial / "workflow" / part, ignore=ignored)
        names = [f"{number}-{path.name}" for number, path in enumerate(configurations, start=1)]
        for name, path in zip(names, configurations, strict=True):
            shutil.copy(path, partial / name)
    return [results / COPIES / name for name in names]


def _data(results: Path, path: Path) -> Entity:
    """Describe a file or folder of the crate."""
    name = path.relative_to(results).as_posix()
    if path.is_dir():
        description = "Folder whose MANIFEST.json, where it has one, holds the digests of its files"
        return {"@id": f"{name}/", "@type": "Dataset", "name": name, "description": description}
    return {**_file(path, file_digest(path)), "@id": name, "name": name}


def _file(path: Path, digest: str) -> Entity:
    return {
        "@type": "File",
        "contentSize": str(path.stat().st_size),
        "encodingFormat": FORMATS.get(path.suffix, "application/octet-stream"),
        "sha256": digest,
    }


def _software(aam_versions: str) -> list[Entity]:
    """Describe the programs of the run."""
    entities = [
        _program("Python", "https://www.python.org", platform.python_version()),
        _program("AAM", f"urn:aam:{__version__}", aam_versions),
    ]
    for name in ("snakemake", *SOFTWARE):
        try:
            installed = version(name)
        except PackageNotFoundError:
            continue
        entities.append(_program(name, f"https://pypi.org/project/{name}/{installed}/", installed))
    return entities


def _program(name: str, address: str, number: str) -> Entity:
    return {
        "@id": address,
        "@type": "SoftwareApplication",
        "name": name,
        "url": address,
        "softwareVersion": number,
    }


def _references(entities: Sequence[Entity]) -> list[Entity]:
    return [{"@id": entity["@id"]} for entity in entities]
