"""What QIIME 2 knows of the plugin: its actions, their parameters and what they say."""

from q2_types.feature_data import FeatureData, Sequence, Taxonomy
from q2_types.feature_table import FeatureTable, Frequency
from q2_types.tree import Phylogeny, Rooted
from qiime2.plugin import Choices, Citations, Int, List, Metadata, Plugin, Range, Str

from q2_aam import __version__, _examples
from q2_aam._visualizers import first_answer

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
