"""Prediction: what a task was answered with, applied to another table, new ASVs included."""

import logging
from pathlib import Path

from aam.data.predictions import NEAR_READS, UNSEEN_ASVS
from aam.inference.task_predictor import TaskPredictor
from aam.util.atomic import write_tsv
from aam.util.notes import collect_notes, write_notes

logger = logging.getLogger(__name__)


def predict_table(
    *,
    model: Path,
    table: Path,
    sequences: Path | None = None,
    metadata: Path | None = None,
    asvs: Path | None = None,
    reference: str | None = None,
    threads: int = 1,
    predictions_out: Path,
    notes_out: Path,
) -> None:
    """Predict the samples of a table by the methods of a task, which bring their own settings.

    Parameters
    ----------
    model
        Folder of the fine-tuned models, or of a super learner.
    table
        The table: BIOM, TSV or `.qza`.
    sequences
        FASTA file or `.qza` with the sequences of its features. None: their IDs are the sequences.
    metadata
        Metadata with the categories that the models ask for. None: all are unknown.
    asvs
        File of ASV embeddings, for an encoder that pretraining left as it is.
    reference
        Name of the reference of whole genes that places reads of another region; None: as
        `TaskPredictor.predict` does without it.
    threads
        Cores to use.
    predictions_out
        TSV file to write, with a row per sample.
    notes_out
        TSV file to write: what was decided for the user.

    Raises
    ------
    InputError
        A file or the folder of models cannot be read, features have no sequence, no sample has
        enough reads, or hardly any read is near an ASV of training.
    """
    with collect_notes() as notes:
        predictor = TaskPredictor.load(model)
        result = predictor.predict(
            table, sequences, metadata, threads=threads, asvs=asvs, reference=reference
        )
    logger.info(
        "%d samples; %.0f %% of reads of unseen ASVs, %.0f %% of known ASVs or near one",
        len(result),
        100 * result[UNSEEN_ASVS].mean(),
        100 * result[NEAR_READS].mean(),
    )
    write_tsv(predictions_out, result, index=True, float_format="%.9g")
    write_notes(notes_out, notes)
