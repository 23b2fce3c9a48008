"""Which clades moved the predictions for another table."""

from pathlib import Path

from aam.inference.task_predictor import TaskPredictor
from aam.util.atomic import write_tsv


def explain_predictions(
    *,
    model: Path,
    table: Path,
    sequences: Path | None = None,
    reference: str | None = None,
    effects_out: Path,
) -> None:
    """Write by how much each named clade moved the prediction of each sample of a table.

    Parameters
    ----------
    model
        Folder of a super learner without networks.
    table, sequences, reference
        See `aam.stages.predict.predict_table`.
    effects_out
        TSV file to write, a row per sample and clade: see
        `aam.inference.clade_effects.explain_by_clades`.

    Raises
    ------
    InputError
        As `aam.inference.task_predictor.TaskPredictor.explain`.
    """
    effects = TaskPredictor.load(model).explain(table, sequences, reference=reference)
    write_tsv(effects_out, effects)
