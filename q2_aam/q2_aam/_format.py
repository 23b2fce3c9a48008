"""What the plugin adds to QIIME 2's types: kept models, and columns about samples."""

import hashlib
import json

from q2_types.sample_data import SampleData
from qiime2.plugin import SemanticType, ValidationError
from qiime2.plugin import model as formats

AAMClassifier = SemanticType("AAMClassifier")
AAMRegressor = SemanticType("AAMRegressor")
AAMEncoder = SemanticType("AAMEncoder")
AAMPredictions = SemanticType("AAMPredictions", variant_of=SampleData.field["type"])
AAMEmbedding = SemanticType("AAMEmbedding", variant_of=SampleData.field["type"])

MANIFEST = "MANIFEST.json"
KINDS = {
    "classification": "AAMClassifier",
    "regression": "AAMRegressor",
    "pretrained": "AAMEncoder",
}
"""Type of a kept model by its kind."""
FOLDERS = "super_learner, or model, below answers, finetune or pretrain of AAM's results"


class AAMModelFileFormat(formats.BinaryFileFormat):
    """A file of a kept model, which the manifest of its folder vouches for."""

    def _validate_(self, level):
        pass


class AAMModelDirectoryFormat(formats.DirectoryFormat):
    """The folder of a kept model, as `aam` writes it."""

    files = formats.FileCollection(r".+", format=AAMModelFileFormat)

    @files.set_path_maker
    def files_path_maker(self, name):
        """Return where a file lies: its name is its path."""
        return name

    def _validate_(self, level):
        manifest = self.path / MANIFEST
        if not manifest.is_file():
            raise ValidationError(f"There is no {MANIFEST}; expected the folder {FOLDERS}.")
        for name, digest in _read(manifest)["sha256"].items():
            file = self.path / name
            if not file.is_file():
                raise ValidationError(f"{name} is missing; copy the folder again.")
            if level == "max" and hashlib.sha256(file.read_bytes()).hexdigest() != digest:
                raise ValidationError(f"{name} was changed; copy the folder again.")

    def kind(self):
        """Return what the model does: classification, regression or pretrained; None: unknown."""
        learner = self.path / "super_learner.json"
        if learner.is_file():
            return _read(learner)["kind"]
        for config in sorted(self.path.glob("fold*/config.json")):
            return _read(config)["target"]["kind"]
        config = self.path / "config.json"
        return _read(config)["kind"] if config.is_file() else None


class AAMColumnsFormat(formats.TextFileFormat):
    """Columns about samples: TSV that is metadata, too."""

    def _validate_(self, level):
        with self.open() as handle:
            header = handle.readline().rstrip("\n").split("\t")
            if header[0] != "sample-id" or len(header) < 2:
                raise ValidationError("The header is not `sample-id` and names of columns.")
            for number, line in enumerate(handle, start=2):
                cells = len(line.rstrip("\n").split("\t"))
                if cells != len(header):
                    raise ValidationError(f"Line {number} has {cells} cells, not {len(header)}.")
                if level == "min" and number > 5:
                    break


AAMColumnsDirectoryFormat = formats.SingleFileDirectoryFormat(
    "AAMColumnsDirectoryFormat", "columns.tsv", AAMColumnsFormat
)


def check_kind(model, semantic_type):
    """Check that a kept model is of a type.

    Parameters
    ----------
    model : AAMModelDirectoryFormat
        The model.
    semantic_type : str
        Name of the type.

    Raises
    ------
    ValidationError
        It is of another type, or no kept model.
    """
    kind = model.kind()
    if kind not in KINDS:
        raise ValidationError(f"This is no kept model of AAM; expected the folder {FOLDERS}.")
    if KINDS[kind] != semantic_type:
        raise ValidationError(
            f"This model is of the kind {kind}; import it with --type {KINDS[kind]}, not "
            f"{semantic_type}."
        )


def _read(path):
    return json.loads(path.read_text(encoding="utf-8"))
