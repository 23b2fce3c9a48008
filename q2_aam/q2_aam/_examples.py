"""Examples of use, which `--help` shows and `--example-data` writes."""

import biom
import numpy as np
import pandas as pd
from qiime2 import Artifact, Metadata

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
            "age": 20.0 + np.arange(SAMPLES) // 3,
        },
        index=pd.Index(names, name="sample-id"),
    )
    return pd.DataFrame(counts, index=names, columns=list(sequences)), sequences, metadata


def table_factory():
    """Return the feature table of the example."""
    counts = _study()[0]
    table = biom.Table(counts.values.T, list(counts.columns), list(counts.index))
    return Artifact.import_data("FeatureTable[Frequency]", table)


def rep_seqs_factory():
    """Return the sequences of the example."""
    sequences = _study()[1]
    return Artifact.import_data("FeatureData[Sequence]", pd.Series(sequences))


def metadata_factory():
    """Return the metadata of the example."""
    return Metadata(_study()[2])


def first_answer_of_body_sites(use):
    """Answer whether the body site can be predicted."""
    _answer(use, "first_answer")


def report_of_body_sites(use):
    """Answer it with networks."""
    _answer(use, "report")


def _answer(use, action_id):
    (answer,) = use.action(
        use.UsageAction(plugin_id="aam", action_id=action_id),
        use.UsageInputs(
            **_table(use),
            metadata=use.init_metadata("sample_metadata", metadata_factory),
            columns=["body_site"],
            groups="subject",
        ),
        use.UsageOutputNames(visualization="answer"),
    )
    answer.assert_output_type("Visualization")


def classifier_of_body_sites(use):
    """Keep a model of the body site."""
    _classifier(use, _table(use))


def predicted_body_sites(use):
    """Predict the body site by a kept model."""
    inputs = _table(use)
    model = _classifier(use, inputs)
    predictions, _, details = use.action(
        use.UsageAction(plugin_id="aam", action_id="predict_classification"),
        use.UsageInputs(**inputs, model=model),
        use.UsageOutputNames(
            predictions="new_predictions",
            probabilities="new_probabilities",
            details="details",
        ),
    )
    predictions.assert_output_type("SampleData[ClassifierPredictions]")
    details.assert_output_type("SampleData[AAMPredictions]")


def _classifier(use, inputs):
    metadata = use.init_metadata("sample_metadata", metadata_factory)
    model, predictions, _ = use.action(
        use.UsageAction(plugin_id="aam", action_id="fit_classifier"),
        use.UsageInputs(
            **inputs,
            metadata=use.get_metadata_column("body_site", "body_site", metadata),
            groups=use.get_metadata_column("subject", "subject", metadata),
        ),
        use.UsageOutputNames(
            model="model", predictions="predictions", probabilities="probabilities"
        ),
    )
    model.assert_output_type("AAMClassifier")
    predictions.assert_output_type("SampleData[ClassifierPredictions]")
    return model


def regressor_of_age(use):
    """Keep a model of the age."""
    metadata = use.init_metadata("sample_metadata", metadata_factory)
    model, predictions = use.action(
        use.UsageAction(plugin_id="aam", action_id="fit_regressor"),
        use.UsageInputs(
            **_table(use),
            metadata=use.get_metadata_column("age", "age", metadata),
            groups=use.get_metadata_column("subject", "subject", metadata),
        ),
        use.UsageOutputNames(model="model", predictions="predictions"),
    )
    model.assert_output_type("AAMRegressor")
    predictions.assert_output_type("SampleData[RegressorPredictions]")


def placed_sequences(use):
    """Place and name sequences."""
    phylogeny, taxonomy = use.action(
        use.UsageAction(plugin_id="aam", action_id="place"),
        use.UsageInputs(rep_seqs=use.init_artifact("rep_seqs", rep_seqs_factory)),
        use.UsageOutputNames(phylogeny="phylogeny", taxonomy="taxonomy"),
    )
    phylogeny.assert_output_type("Phylogeny[Rooted]")
    taxonomy.assert_output_type("FeatureData[Taxonomy]")


def distances_of_samples(use):
    """Measure unweighted UniFrac."""
    (matrix,) = use.action(
        use.UsageAction(plugin_id="aam", action_id="distances"),
        use.UsageInputs(**_table(use), sampling_depth=1000),
        use.UsageOutputNames(distance_matrix="distance_matrix"),
    )
    matrix.assert_output_type("DistanceMatrix")


def _table(use):
    """Return the inputs that most actions have."""
    table = use.init_artifact("table", table_factory)
    return {"table": table, "rep_seqs": use.init_artifact("rep_seqs", rep_seqs_factory)}
