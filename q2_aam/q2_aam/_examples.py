"""Examples of use, which `--help` shows and `--example-data` writes."""

import numpy as np
import pandas as pd

SAMPLES = 60
FEATURES = 30
READS = 2000
BASES = np.array(list("ACGT"))
"""Size of the simulated study."""


def _study():
    """Return a simulated study: counts, sequences and metadata.

    Sixty samples of twenty subjects; half of the features are four times as abundant in the gut as
    in the mouth.
    """
    rng = np.random.RandomState(0)
    names = [f"s{number:02d}" for number in range(SAMPLES)]
    ancestor = rng.randint(4, size=120)
    sequences = {}
    for number in range(FEATURES):
        bases = ancestor.copy()
        changed = rng.choice(120, size=12, replace=False)
        bases[changed] = rng.randint(4, size=12)
        sequences[f"feature{number:02d}"] = "".join(BASES[bases])
    is_gut = np.arange(SAMPLES) % 2 == 0
    abundance = rng.lognormal(size=(SAMPLES, FEATURES))
    abundance[is_gut, : FEATURES // 2] *= 4
    counts = np.array([rng.multinomial(READS, row / row.sum()) for row in abundance])
    metadata = pd.DataFrame(
        {
            "body_site": np.where(is_gut, "gut", "mouth"),
            "subject": [f"p{number // 3:02d}" for number in range(SAMPLES)],
        },
        index=pd.Index(names, name="sample-id"),
    )
    return pd.DataFrame(counts, index=names, columns=list(sequences)), sequences, metadata


def table_factory():
    """Return the feature table of the example."""
    import biom
    from qiime2 import Artifact

    counts = _study()[0]
    table = biom.Table(counts.values.T, list(counts.columns), list(counts.index))
    return Artifact.import_data("FeatureTable[Frequency]", table)


def rep_seqs_factory():
    """Return the sequences of the example."""
    from qiime2 import Artifact

    sequences = _study()[1]
    return Artifact.import_data("FeatureData[Sequence]", pd.Series(sequences))


def metadata_factory():
    """Return the metadata of the example."""
    from qiime2 import Metadata

    return Metadata(_study()[2])


def first_answer_of_body_sites(use):
    """Answer whether the body site can be predicted."""
    table = use.init_artifact("table", table_factory)
    rep_seqs = use.init_artifact("rep_seqs", rep_seqs_factory)
    metadata = use.init_metadata("sample_metadata", metadata_factory)
    (answer,) = use.action(
        use.UsageAction(plugin_id="aam", action_id="first_answer"),
        use.UsageInputs(
            table=table,
            rep_seqs=rep_seqs,
            metadata=metadata,
            columns=["body_site"],
            groups="subject",
        ),
        use.UsageOutputNames(visualization="answer"),
    )
    answer.assert_output_type("Visualization")
