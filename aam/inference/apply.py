"""What the command `aam` does with another table, or with sequences, without a run.

Warnings of these functions are sentences for the user, which the command prints.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from aam.data.nouns import PLURALS
from aam.data.predictions import FEW_NEAR
from aam.data.trees import split_root, write_newick
from aam.learners.kept_mixture import FEATURES, SETTINGS, read_super_learner
from aam.reference_tree.phylogeny import ReferencePhylogeny
from aam.util.atomic import atomic_path, write_tsv
from aam.util.digests import fitting
from aam.util.errors import problem

PLACES = "places.tsv"
"""File of the places of sequences, in the folder that `place_sequences` writes."""
TREE = "tree.nwk"
"""File of their tree."""
DIGITS = "%.9g"
HOLDS = "yes: IDs, labels and reads; `aam share` makes a copy without them"
HOLDS_NONE = "no; probabilities are not calibrated, and there are no intervals"
NEAR = "the column near_reads says how much of a sample's reads lies near a known feature"
NOVELTY = f"{NEAR}; below {FEW_NEAR:.0%} no interval is given"
"""What a prediction says of a sample that is unlike those of training."""
NOVELTY_OF_NETWORKS = f"the column novelty compares samples with those of training; {NOVELTY}"


def predict_samples(
    *,
    model: Path,
    table: Path,
    sequences: Path | None = None,
    metadata: Path | None = None,
    reference: str | None = None,
    threads: int = 1,
    predictions_out: Path,
) -> None:
    """Predict the samples of a table by the methods of a task.

    Parameters
    ----------
    model
        Folder that `aam.load` reads.
    table, sequences, metadata, reference, threads
        As for `aam.inference.task_predictor.TaskPredictor.predict`.
    predictions_out
        TSV file to write, with a row per sample.

    Raises
    ------
    InputError
        The folder holds nothing that predicts, a file cannot be read, or the table is unlike that
        of training.
    """
    from aam.inference.task_predictor import TaskPredictor

    predictions = TaskPredictor.load(model).predict(
        table, sequences, metadata, threads=threads, reference=reference
    )
    write_tsv(predictions_out, predictions, index=True, float_format=DIGITS)


def describe_model(model: Path) -> str:
    """Return what people want to know of a kept model: what it predicts, of what, by what.

    Parameters
    ----------
    model
        Folder that `aam.load` reads.

    Raises
    ------
    InputError
        The folder holds nothing that predicts, or is damaged.
    """
    if not (model / SETTINGS).is_file():
        return _describe_networks(model)
    hint = "copy the directory again, with all of its files"
    with fitting(model, "a super learner", hint):
        settings = read_super_learner(model)
        facts = settings["facts"]
        targets = [name for name in settings["mixtures"] if name]
        is_shared = (model / FEATURES).is_file()
        novelty = NOVELTY if settings["model"] is None else NOVELTY_OF_NETWORKS
        if is_shared:
            novelty = NEAR
        names = ", ".join(settings["classes"])
        of_what = f"{settings['kind']}{f' of {names}' if names else ''}"
        # Folders of version 1.0 do not have the name of the task.
        if "task" in facts:
            of_what += f"; task {facts['task']}"
        groups = f" of {facts['groups']} groups" if facts["groups"] else ""
        lines = {
            "predicts": of_what + (f"; targets {', '.join(targets)}" if targets else ""),
            "learned from": f"{facts['samples']} samples{groups}, "
            f"{facts['features']} {PLURALS[facts['noun']]}",
            "sequences": facts["region"] or "none",
            "tree and its licence": facts["tree"] or "nothing is known",
            "draws": _describe_draws(settings["rarefaction"]),
            "methods": "; ".join(
                f"{f'{target}: ' if target else ''}{_describe_weights(mixture['weights'])}"
                for target, mixture in settings["mixtures"].items()
            ),
            "networks": settings["model"] or "none",
            "holds samples": HOLDS_NONE if is_shared else HOLDS,
            "novelty": novelty,
            "format": f"{settings['format']}, written by AAM "
            f"{settings['provenance']['aam.version']}",
        }
    return "\n".join(f"{name}: {text}" for name, text in lines.items())


def share_model(model: Path, folder_out: Path) -> None:
    """Write a copy of a kept super learner that holds no sample of training.

    Parameters
    ----------
    model
        Folder of the super learner.
    folder_out
        Folder to write: see `aam.inference.with_baselines.SuperLearner.share`.

    Raises
    ------
    InputError
        The folder is none of a super learner, or nothing in it predicts without samples.
    """
    from aam.inference.with_baselines import SuperLearner

    super_learner = SuperLearner.load(model)
    if super_learner is None:
        raise problem(
            model,
            f"no {SETTINGS}",
            "the folder of a super learner",
            "share the folder answers/<task>/first/super_learner",
        )
    super_learner.share(model, folder_out)


def _describe_networks(model: Path) -> str:
    """Return what `describe_model` does of a folder of networks."""
    # Networks take PyTorch, which takes seconds to import.
    from aam.inference.bundle import ModelBundle

    bundle = ModelBundle.load(model)
    names = ", ".join(bundle.target.classes)
    lines = {
        "predicts": f"{bundle.target.kind} of {', '.join(bundle.target.columns)}"
        f"{f' ({names})' if names else ''}",
        "sequences": f"{len(bundle.seen_asvs)}, of which {bundle.max_length_bp} bases are read",
        "draws": _describe_draws({"depth": bundle.depth, "views": bundle.views}),
        "networks": str(len(bundle.predictors)),
        "novelty": NOVELTY if bundle.reference is None else NOVELTY_OF_NETWORKS,
    }
    return "\n".join(f"{name}: {text}" for name, text in lines.items())


def _describe_draws(rarefaction: Mapping[str, Any]) -> str:
    if rarefaction["depth"] is None:
        return "amounts are taken as they are"
    views = rarefaction["views"]
    return f"{rarefaction['depth']} reads per sample, {'once' if views == 1 else f'{views} times'}"


def _describe_weights(weights: Mapping[str, float]) -> str:
    """Return the methods that count, the heaviest first."""
    ordered = sorted(weights.items(), key=lambda entry: -entry[1])
    return ", ".join(f"{name} {weight:.2f}" for name, weight in ordered if weight >= 0.005)


def embed_samples(
    *,
    encoder: Path,
    table: Path,
    sequences: Path | None = None,
    depth: int | None = None,
    threads: int = 1,
    embedding_out: Path,
) -> None:
    """Embed the samples of a table by a pretrained encoder.

    Parameters
    ----------
    encoder
        Folder that `aam.encoder` reads.
    table, sequences, depth, threads
        As for `aam.inference.pretrained.PretrainedEncoder.embed`.
    embedding_out
        TSV file to write: `sample-id` and the numbers of the embedding, from `axis1` on.

    Raises
    ------
    InputError
        The folder holds no encoder, a file cannot be read, or no sample is deep enough.
    """
    # The encoder takes PyTorch, which takes seconds to import.
    from aam.inference.pretrained import PretrainedEncoder

    embedding = PretrainedEncoder.load(encoder).embed(
        table, sequences, depth=depth, threads=threads
    )
    embedding.columns = pd.Index([f"axis{number + 1}" for number in range(embedding.shape[1])])
    write_tsv(embedding_out, embedding, index=True, float_format=DIGITS)


def measure_distances(
    *,
    table: Path,
    sequences: Path | None = None,
    reference: str,
    metric: str,
    depth: int | None = None,
    seed: int = 0,
    threads: int = 1,
    distances_out: Path,
) -> None:
    """Measure the distance of every two samples of a table, on the tree of a reference.

    Parameters
    ----------
    table, sequences, metric, depth, seed, threads
        As for `aam.reference_tree.phylogeny.ReferencePhylogeny.distances`.
    reference
        A reference that `aam reference list` names.
    distances_out
        Square matrix to write, as scikit-bio and QIIME 2 read it: TSV, the first cell is empty.

    Raises
    ------
    InputError
        There is no such reference or metric, a file cannot be read, or no sample is deep enough.
    """
    phylogeny = ReferencePhylogeny.load(reference, threads)
    matrix = phylogeny.distances(
        table, sequences, metric, depth=depth, seed=seed, threads=threads
    ).rename_axis(None)
    write_tsv(distances_out, matrix, index=True, float_format=DIGITS)


def place_sequences(*, sequences: Path, reference: str, threads: int = 1, folder_out: Path) -> None:
    """Place sequences in the tree of a reference.

    Parameters
    ----------
    sequences
        FASTA or `.qza`.
    reference
        A reference that `aam reference list` names.
    threads
        Processes that look for whole genes.
    folder_out
        Folder to write: `places.tsv`, as `aam.reference_tree.phylogeny.ReferencePhylogeny.place`
        returns it, and `tree.nwk`, the rooted tree of the sequences.

    Raises
    ------
    InputError
        There is no such reference, or the file cannot be read.
    """
    placement = ReferencePhylogeny.load(reference, threads).placement(sequences)
    with atomic_path(folder_out) as partial:
        partial.mkdir()
        write_tsv(partial / PLACES, placement.to_frame(), index=True, float_format=DIGITS)
        write_newick(partial / TREE, split_root(placement.to_tree()))
