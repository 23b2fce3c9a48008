"""QIIME 2 artifacts, written as the zip archives that they are, without QIIME 2.

The layout is that of archive version 5, which QIIME 2 of 2019 and later reads: a folder named by
a UUID with `metadata.yaml`, the data, their provenance, and the MD5 sums of all:
https://dev.qiime2.org, "Anatomy of an archive".
"""

import hashlib
import json
import uuid
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from aam.util.atomic import atomic_path
from aam.util.digests import settings_digest
from aam.version import __version__

FRAMEWORK = "2022.11.1"
"""Release of QIIME 2 whose layout is written."""
NO_TIME = "1980-01-01T00:00:00+00:00"
"""Stands for every time, so that equal content has equal bytes; zip knows no earlier one."""
CITATION = "@misc{{aam, title = {{AAM: Attention All Microbes}}, note = {{version {0}}}}}\n"
LAYOUTS = {
    "DistanceMatrix": ("DistanceMatrixDirectoryFormat", "distance-matrix.tsv"),
    "PCoAResults": ("OrdinationDirectoryFormat", "ordination.txt"),
    "SampleData[AlphaDiversity]": ("AlphaDiversityDirectoryFormat", "alpha-diversity.tsv"),
    "SampleData[RegressorPredictions]": ("PredictionsDirectoryFormat", "predictions.tsv"),
    "SampleData[ClassifierPredictions]": ("PredictionsDirectoryFormat", "predictions.tsv"),
    "SampleData[Probabilities]": ("ProbabilitiesDirectoryFormat", "class_probabilities.tsv"),
    "FeatureData[Importance]": ("ImportanceDirectoryFormat", "importance.tsv"),
    "FeatureData[Taxonomy]": ("TSVTaxonomyDirectoryFormat", "taxonomy.tsv"),
}
"""By semantic type, the format of the folder `data/` and its only file."""


def write_artifact(
    path: Path, semantic_type: str, text: Iterable[str], provenance: Mapping[str, str]
) -> None:
    """Write a QIIME 2 artifact (.qza) atomically.

    Its UUID, and so every byte, follows from what it is made of.

    Parameters
    ----------
    path
        File to write.
    semantic_type
        A key of `LAYOUTS`.
    text
        Content of the data file, in parts.
    provenance
        What made the content, as `aam.util.digests.provenance` returns it.
    """
    form, member = LAYOUTS[semantic_type]
    artifact = _uuid(semantic_type, provenance, "artifact")
    action = _uuid(semantic_type, provenance, "action")
    version = f"QIIME 2\narchive: 5\nframework: {FRAMEWORK}\n"
    metadata = f"uuid: {artifact}\ntype: {semantic_type}\nformat: {form}\n"
    data = f"data/{member}"
    checksums = {}
    with atomic_path(path) as partial, zipfile.ZipFile(partial, "w") as archive:
        checksum = _add(archive, f"{artifact}/{data}", text)
        checksums[data] = checksum
        for name, content in {
            "VERSION": version,
            "metadata.yaml": metadata,
            "provenance/VERSION": version,
            "provenance/metadata.yaml": metadata,
            "provenance/citations.bib": CITATION.format(__version__),
            "provenance/action/action.yaml": _action(
                identifier=action,
                form=form,
                member=member,
                checksum=checksum,
                provenance=provenance,
            ),
        }.items():
            checksums[name] = _add(archive, f"{artifact}/{name}", [content])
        lines = (f"{digest}  {name}\n" for name, digest in sorted(checksums.items()))
        _add(archive, f"{artifact}/checksums.md5", lines)


def _uuid(semantic_type: str, provenance: Mapping[str, str], part: str) -> str:
    digest = settings_digest({"type": semantic_type, "part": part, **provenance})
    # QIIME 2 accepts UUIDs of version 4 alone, which marks six of the bits; the others are the
    # digest's.
    return str(uuid.UUID(bytes=bytes.fromhex(digest)[:16], version=4))


def _add(archive: zipfile.ZipFile, name: str, parts: Iterable[str]) -> str:
    """Write a member, and return its MD5 sum."""
    info = zipfile.ZipInfo(name)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    digest = hashlib.md5(usedforsecurity=False)
    with archive.open(info, "w", force_zip64=True) as member:
        for part in parts:
            member.write(part.encode())
            digest.update(part.encode())
    return digest.hexdigest()


def _action(
    *, identifier: str, form: str, member: str, checksum: str, provenance: Mapping[str, str]
) -> str:
    """Return the provenance as QIIME 2 reads it: an import; YAML takes any JSON.

    Parameters
    ----------
    identifier
        UUID of the import.
    form
        Format of the folder `data/`.
    member, checksum
        Name of its only file, and the MD5 sum of that.
    provenance
        What made the content, as `aam.util.digests.provenance` returns it.
    """
    runtime = {"start": NO_TIME, "end": NO_TIME, "duration": "0 microseconds"}
    manifest = [{"name": member, "md5sum": checksum}]
    content = {
        "execution": {"uuid": identifier, "runtime": runtime},
        "action": {"type": "import", "format": form, "manifest": manifest},
        "transformers": {"output": [{"from": form, "to": form}]},
        "environment": {
            "framework": {"version": FRAMEWORK, "website": "https://qiime2.org"},
            "plugins": {},
            "python-packages": {"aam": __version__},
        },
        "aam": dict(provenance),
    }
    return json.dumps(content, indent=4)
