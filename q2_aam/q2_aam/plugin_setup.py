"""What QIIME 2 knows of the plugin: its actions, their parameters and what they say."""

import importlib

try:
    from q2_sample_classifier import ClassifierPredictions, Probabilities, RegressorPredictions
except ImportError as error:
    # One plugin that cannot be imported stops all of QIIME 2.
    raise ImportError(
        "The plugin q2-aam needs q2-sample-classifier, which this environment lacks. Install that "
        "(the amplicon distribution of QIIME 2 has it), or: pip uninstall q2-aam"
    ) from error
from q2_types.distance_matrix import DistanceMatrix
from q2_types.feature_data import FeatureData, Sequence, Taxonomy
from q2_types.feature_table import FeatureTable, Frequency
from q2_types.ordination import PCoAResults
from q2_types.sample_data import SampleData
from q2_types.tree import Phylogeny, Rooted
from qiime2.plugin import (
    Categorical,
    Choices,
    Citations,
    Int,
    List,
    Metadata,
    MetadataColumn,
    Numeric,
    Plugin,
    Range,
    Str,
)

from q2_aam import __version__, _examples
from q2_aam._format import (
    AAMClassifier,
    AAMColumnsDirectoryFormat,
    AAMColumnsFormat,
    AAMEmbedding,
    AAMEncoder,
    AAMModelDirectoryFormat,
    AAMModelFileFormat,
    AAMPredictions,
    AAMRegressor,
    check_kind,
)
from q2_aam._methods import (
    distances,
    embed,
    fit_classifier,
    fit_regressor,
    place,
    predict_classification,
    predict_regression,
)
from q2_aam._visualizers import first_answer, report

citations = Citations.load("citations.bib", package="q2_aam")
plugin = Plugin(
    name="aam",
    version=__version__,
    website="docs/how-to/qiime2.md in the repository of AAM",
    package="q2_aam",
    user_support_text="Please open an issue in the repository of AAM.",
    short_description="Can a metadata column be predicted from the feature table?",
    description=(
        "This plugin predicts sample metadata from a feature table by up to nine methods and their "
        "mixture, with folds that keep the samples of a subject together, and says whether the "
        "score can be trusted. It calls the command `aam`, which is installed in an environment of "
        "its own; where it is not on the PATH, the environment variable AAM_COMMAND names it."
    ),
    citations=[citations["aam"]],
)

STUDY_INPUTS = {
    "table": FeatureTable[Frequency],
    "rep_seqs": FeatureData[Sequence],
    "phylogeny": Phylogeny[Rooted],
    "taxonomy": FeatureData[Taxonomy],
}
STUDY_INPUT_DESCRIPTIONS = {
    "table": "Feature table of the samples, not rarefied.",
    "rep_seqs": "Sequences of the features. Not needed where the feature IDs are the sequences.",
    "phylogeny": (
        "Rooted tree of the features. Without it the sequences are placed in a reference tree, or "
        "a tree is made."
    ),
    "taxonomy": "Names of the features, for figures and tables.",
}
RUN_PARAMETERS = {
    "groups": Str,
    "sampling_depth": Int % Range(1, None),
    "random_state": Int % Range(0, None),
    "n_jobs": Int % Range(1, None),
    "missing_samples": Str % Choices(["error", "ignore"]),
    "settings": Str,
}
RUN_PARAMETER_DESCRIPTIONS = {
    "groups": (
        "Metadata column that says which samples belong together, such as those of one person: "
        "they stay on one side of each fold. `false`: each sample is of a subject of its own. "
        "Default: the column whose name and values suit."
    ),
    "sampling_depth": (
        "Reads that are drawn of each sample; shallower samples are left out. Default: a depth "
        "that keeps most of the samples."
    ),
    "random_state": "Seed of the drawn reads and of the folds.",
    "n_jobs": "Number of jobs to run in parallel.",
    "missing_samples": (
        'How to handle samples of the table that are not in the metadata. "error" will fail if '
        'there are any. "ignore" leaves them out.'
    ),
    "settings": (
        "Further keys of AAM's configuration, in YAML, such as 'rarefaction: {views: 3}'."
    ),
}
METADATA_PARAMETERS = {"metadata": Metadata, "columns": List[Str]}
METADATA_PARAMETER_DESCRIPTIONS = {
    "metadata": "Metadata of the samples.",
    "columns": "Metadata columns to predict.",
}

plugin.register_semantic_types(
    AAMClassifier, AAMRegressor, AAMEncoder, AAMPredictions, AAMEmbedding
)
plugin.register_formats(
    AAMModelFileFormat, AAMModelDirectoryFormat, AAMColumnsFormat, AAMColumnsDirectoryFormat
)
for kept in (AAMClassifier, AAMRegressor, AAMEncoder):
    plugin.register_semantic_type_to_format(kept, AAMModelDirectoryFormat)
for columns_of in (AAMPredictions, AAMEmbedding):
    plugin.register_semantic_type_to_format(SampleData[columns_of], AAMColumnsDirectoryFormat)


@plugin.register_validator(AAMClassifier)
def _is_classifier(data: AAMModelDirectoryFormat, level):
    check_kind(data, "AAMClassifier")


@plugin.register_validator(AAMRegressor)
def _is_regressor(data: AAMModelDirectoryFormat, level):
    check_kind(data, "AAMRegressor")


@plugin.register_validator(AAMEncoder)
def _is_encoder(data: AAMModelDirectoryFormat, level):
    check_kind(data, "AAMEncoder")


plugin.visualizers.register_function(
    function=first_answer,
    inputs=STUDY_INPUTS,
    parameters={**METADATA_PARAMETERS, **RUN_PARAMETERS},
    input_descriptions=STUDY_INPUT_DESCRIPTIONS,
    parameter_descriptions={**METADATA_PARAMETER_DESCRIPTIONS, **RUN_PARAMETER_DESCRIPTIONS},
    name="Can a metadata column be predicted? A page of answers.",
    description=(
        "Predicts metadata columns by cross-validation with up to nine methods and their mixture, "
        "and makes a page that answers, for each column, whether it can be predicted: a verdict, "
        "scores with intervals and tests that allow for groups, calibrated predictions, what "
        "else says the column, and the clades behind it."
    ),
    citations=[citations["aam"], citations["vanderlaan2007super"]],
    examples={"body_site": _examples.first_answer_of_body_sites},
)
plugin.visualizers.register_function(
    function=report,
    inputs=STUDY_INPUTS,
    parameters={**METADATA_PARAMETERS, **RUN_PARAMETERS},
    input_descriptions=STUDY_INPUT_DESCRIPTIONS,
    parameter_descriptions={**METADATA_PARAMETER_DESCRIPTIONS, **RUN_PARAMETER_DESCRIPTIONS},
    name="The same page with networks, which take longer.",
    description=(
        "Makes the page of `first-answer`, and in addition pretrains a network on the table, "
        "fine-tunes it to each column on the same folds, and says whether it adds to the other "
        "methods. This takes minutes to hours; below 1000 labelled samples it adds little."
    ),
    citations=[citations["aam"], citations["vanderlaan2007super"]],
    examples={"body_site": _examples.report_of_body_sites},
)

FIT_INPUTS = {name: STUDY_INPUTS[name] for name in ("table", "rep_seqs", "phylogeny")}
FIT_INPUT_DESCRIPTIONS = {name: STUDY_INPUT_DESCRIPTIONS[name] for name in FIT_INPUTS}
FIT_PARAMETERS = {**RUN_PARAMETERS, "groups": MetadataColumn[Categorical]}
FIT_PARAMETER_DESCRIPTIONS = {
    **RUN_PARAMETER_DESCRIPTIONS,
    "groups": (
        "Metadata column that says which samples belong together, such as those of one person. "
        "Without it each sample is of a subject of its own."
    ),
}
FIT_DESCRIPTION = (
    "Keeps the mixture of all methods that take no network, for the prediction of {0} in other "
    "tables, with its cross-validated predictions. The model holds the reads and the labels of "
    "the samples that it was trained on: share it as you would share these."
)
MODEL_DESCRIPTION = "What predicts other tables; it holds the training samples."
PREDICTIONS_DESCRIPTION = "Predicted values of the samples."
PROBABILITIES_DESCRIPTION = "Calibrated probabilities of the classes."
DETAILS_DESCRIPTION = (
    "Everything that is said of each sample: intervals or sets of classes, probabilities, how many "
    "of its reads are near those of training (near_reads), and whether it was in training. It "
    "is metadata, too."
)

plugin.methods.register_function(
    function=fit_classifier,
    inputs=FIT_INPUTS,
    parameters={**FIT_PARAMETERS, "metadata": MetadataColumn[Categorical]},
    outputs=[
        ("model", AAMClassifier),
        ("predictions", SampleData[ClassifierPredictions]),
        ("probabilities", SampleData[Probabilities]),
    ],
    input_descriptions=FIT_INPUT_DESCRIPTIONS,
    parameter_descriptions={
        **FIT_PARAMETER_DESCRIPTIONS,
        "metadata": "Categorical metadata column to use as prediction target.",
    },
    output_descriptions={
        "model": MODEL_DESCRIPTION,
        "predictions": "Cross-validated predictions of the samples.",
        "probabilities": "Their calibrated probabilities of the classes.",
    },
    name="Keep a model that predicts the classes of other samples.",
    description=FIT_DESCRIPTION.format("classes"),
    citations=[citations["aam"], citations["vanderlaan2007super"]],
    examples={"body_site": _examples.classifier_of_body_sites},
)
plugin.methods.register_function(
    function=fit_regressor,
    inputs=FIT_INPUTS,
    parameters={**FIT_PARAMETERS, "metadata": MetadataColumn[Numeric]},
    outputs=[("model", AAMRegressor), ("predictions", SampleData[RegressorPredictions])],
    input_descriptions=FIT_INPUT_DESCRIPTIONS,
    parameter_descriptions={
        **FIT_PARAMETER_DESCRIPTIONS,
        "metadata": "Numeric metadata column to use as prediction target.",
    },
    output_descriptions={
        "model": MODEL_DESCRIPTION,
        "predictions": "Cross-validated predictions of the samples.",
    },
    name="Keep a model that predicts a number of other samples.",
    description=FIT_DESCRIPTION.format("numbers"),
    citations=[citations["aam"], citations["vanderlaan2007super"]],
    examples={"age": _examples.regressor_of_age},
)

PREDICT_INPUTS = {"table": FeatureTable[Frequency], "rep_seqs": FeatureData[Sequence]}
PREDICT_INPUT_DESCRIPTIONS = {
    "table": "Feature table of the samples to predict, not rarefied; its features may be new.",
    "rep_seqs": STUDY_INPUT_DESCRIPTIONS["rep_seqs"],
    "model": "Model of `fit-classifier` or `fit-regressor`, or an imported one.",
}
PREDICT_PARAMETERS = {
    "metadata": Metadata,
    "reference": Str,
    "n_jobs": RUN_PARAMETERS["n_jobs"],
}
PREDICT_PARAMETER_DESCRIPTIONS = {
    "metadata": "Covariates, where the networks of a model ask for some.",
    "reference": (
        "Reference of whole genes that places reads of another region of 16S than that of "
        "training. Default: greengenes, if it is on this machine."
    ),
    "n_jobs": RUN_PARAMETER_DESCRIPTIONS["n_jobs"],
}
PREDICT_DESCRIPTION = (
    "Predicts the samples of another table by a kept model. Features are matched by their "
    "sequences: new ones count as the nearest known one if that differs in at most 3 % of the "
    "bases. A table of other organisms, of another strand or with primers is refused, with the "
    "cause. Reads of another region of 16S are placed in a reference."
)

plugin.methods.register_function(
    function=predict_classification,
    inputs={**PREDICT_INPUTS, "model": AAMClassifier},
    parameters=PREDICT_PARAMETERS,
    outputs=[
        ("predictions", SampleData[ClassifierPredictions]),
        ("probabilities", SampleData[Probabilities]),
        ("details", SampleData[AAMPredictions]),
    ],
    input_descriptions=PREDICT_INPUT_DESCRIPTIONS,
    parameter_descriptions=PREDICT_PARAMETER_DESCRIPTIONS,
    output_descriptions={
        "predictions": PREDICTIONS_DESCRIPTION,
        "probabilities": PROBABILITIES_DESCRIPTION,
        "details": DETAILS_DESCRIPTION,
    },
    name="Predict the classes of new samples by a kept model.",
    description=PREDICT_DESCRIPTION,
    citations=[citations["aam"]],
    examples={"body_site": _examples.predicted_body_sites},
)
plugin.methods.register_function(
    function=predict_regression,
    inputs={**PREDICT_INPUTS, "model": AAMRegressor},
    parameters=PREDICT_PARAMETERS,
    outputs=[
        ("predictions", SampleData[RegressorPredictions]),
        ("details", SampleData[AAMPredictions]),
    ],
    input_descriptions=PREDICT_INPUT_DESCRIPTIONS,
    parameter_descriptions=PREDICT_PARAMETER_DESCRIPTIONS,
    output_descriptions={
        "predictions": PREDICTIONS_DESCRIPTION,
        "details": DETAILS_DESCRIPTION,
    },
    name="Predict a number of new samples by a kept model.",
    description=PREDICT_DESCRIPTION,
    citations=[citations["aam"]],
)

plugin.methods.register_function(
    function=place,
    inputs={"rep_seqs": FeatureData[Sequence]},
    parameters={"reference": Str, "n_jobs": RUN_PARAMETERS["n_jobs"]},
    outputs=[("phylogeny", Phylogeny[Rooted]), ("taxonomy", FeatureData[Taxonomy])],
    input_descriptions={"rep_seqs": "Sequences of any region of 16S."},
    parameter_descriptions={
        "reference": (
            "Reference of whole genes on this machine: `aam reference get greengenes` gets "
            "Greengenes 13_8, `aam reference build` makes one of your own files, "
            "`aam reference list` lists them."
        ),
        "n_jobs": RUN_PARAMETER_DESCRIPTIONS["n_jobs"],
    },
    output_descriptions={
        "phylogeny": "Tree of the sequences: each lies next to the gene that it is most like.",
        "taxonomy": "Names of the sequences, as far down as the genes near them agree.",
    },
    name="Place sequences in the tree of a reference, and name them.",
    description=(
        "Gives sequences a rooted tree and a taxonomy, by the whole genes that they are most like, "
        "without alignment of all. Sequences of different regions get places in one tree."
    ),
    citations=[citations["aam"], citations["mcdonald2012improved"]],
    examples={"sequences": _examples.placed_sequences},
)
plugin.methods.register_function(
    function=distances,
    inputs=PREDICT_INPUTS,
    parameters={
        "metric": Str
        % Choices(
            [
                "unweighted",
                "weighted_normalized",
                "weighted_unnormalized",
                "generalized",
                "bray_curtis",
                "robust_aitchison",
            ]
        ),
        "reference": Str,
        "sampling_depth": RUN_PARAMETERS["sampling_depth"],
        "random_state": RUN_PARAMETERS["random_state"],
        "n_jobs": RUN_PARAMETERS["n_jobs"],
    },
    outputs=[("distance_matrix", DistanceMatrix)],
    input_descriptions={
        "table": "Feature table.",
        "rep_seqs": STUDY_INPUT_DESCRIPTIONS["rep_seqs"],
    },
    parameter_descriptions={
        "metric": "Kind of UniFrac, or of a distance that needs no tree.",
        "reference": "Tree that the sequences are placed in: v4, or one of `aam reference list`.",
        "sampling_depth": (
            "Reads that are drawn of each sample first; shallower samples are left out. Default: "
            "all reads count."
        ),
        "random_state": "Seed of that draw.",
        "n_jobs": RUN_PARAMETER_DESCRIPTIONS["n_jobs"],
    },
    output_descriptions={"distance_matrix": "Distances of all pairs of samples."},
    name="UniFrac on the tree of a reference: no tree is needed.",
    description=(
        "Measures the distance of every two samples on the tree of a reference, in which the "
        "sequences are placed. Studies that were measured on one reference are comparable."
    ),
    citations=[citations["aam"], citations["lozupone2005unifrac"]],
    examples={"unweighted": _examples.distances_of_samples},
)
plugin.methods.register_function(
    function=embed,
    inputs={**PREDICT_INPUTS, "encoder": AAMEncoder},
    parameters={
        "sampling_depth": RUN_PARAMETERS["sampling_depth"],
        "n_jobs": RUN_PARAMETERS["n_jobs"],
    },
    outputs=[("embedding", SampleData[AAMEmbedding]), ("ordination", PCoAResults)],
    input_descriptions={
        "table": "Feature table.",
        "rep_seqs": STUDY_INPUT_DESCRIPTIONS["rep_seqs"],
        "encoder": "Pretrained encoder: the imported folder pretrain/<model>/model of a run.",
    },
    parameter_descriptions={
        "sampling_depth": (
            "Reads that are drawn of each sample first; shallower samples are left out. Default: "
            "all reads count."
        ),
        "n_jobs": RUN_PARAMETER_DESCRIPTIONS["n_jobs"],
    },
    output_descriptions={
        "embedding": "The numbers of each sample. It is metadata, too.",
        "ordination": "Their first ten principal components, as for `qiime emperor plot`.",
    },
    name="Embed samples by a pretrained encoder.",
    description=(
        "Gives each sample the numbers by which a pretrained encoder knows it: distances between "
        "them are about the UniFrac distances that it was trained on."
    ),
    citations=[citations["aam"]],
)

importlib.import_module("q2_aam._transformer")
