"""The methods of a dataset's page, as sentences to be copied, with the works they cite.

A sentence cites by the key of `REFERENCES` in brackets, `[unifrac]` for instance; `methods_text`
replaces the keys by numbers.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from aam.config.metrics import METRICS
from aam.config.names import name_models
from aam.config.questions import STUDIES
from aam.config.sections.model import LINEAGE
from aam.config.settings.page import PageFolds, PageModel, PageSettings, PageTask
from aam.data.nouns import Nouns
from aam.data.outlier_branches import LARGEST_OUTLIER, LONG_BRANCH
from aam.data.table import ASV_READS, TableFacts
from aam.evaluate.task_report import NetworkTraining
from aam.report.labels import to_words
from aam.report.page.additions import name_covariates
from aam.report.page.answers import Answer, is_stopped
from aam.report.page.encoders import EncoderReport

REFERENCES = {
    "unifrac": "Lozupone C, Knight R. UniFrac: a new phylogenetic method for comparing microbial "
    "communities. Appl Environ Microbiol 2005;71:8228.",
    "striped": "McDonald D et al. Striped UniFrac: enabling microbiome analysis at unprecedented "
    "scale. Nat Methods 2018;15:847.",
    "attention": "Vaswani A et al. Attention is all you need. NeurIPS 2017.",
    "svm": "Cortes C, Vapnik V. Support-vector networks. Mach Learn 1995;20:273.",
    "sklearn": "Pedregosa F et al. Scikit-learn: machine learning in Python. J Mach Learn Res "
    "2011;12:2825.",
    "super_learner": "van der Laan MJ, Polley EC, Hubbard AE. Super learner. Stat Appl Genet Mol "
    "Biol 2007;6:25.",
    "dependence": "Bengio Y, Grandvalet Y. No unbiased estimator of the variance of K-fold "
    "cross-validation. J Mach Learn Res 2004;5:1089.",
    "holm": "Holm S. A simple sequentially rejective multiple test procedure. Scand J Stat "
    "1979;6:65.",
    "conformal": "Vovk V. Cross-conformal predictors. Ann Math Artif Intell 2015;74:9.",
    "gradients": "Sundararajan M, Taly A, Yan Q. Axiomatic attribution for deep networks. ICML "
    "2017.",
    "snakemake": "Mölder F et al. Sustainable data analysis with Snakemake. F1000Research "
    "2021;10:33.",
    "qiime2": "Bolyen E et al. Reproducible, interactive, scalable and extensible microbiome data "
    "science using QIIME 2. Nat Biotechnol 2019;37:852.",
}
"""Works by the key that sentences cite them with."""
KEY = "|".join(REFERENCES)
CITATION = re.compile(rf"\[((?:{KEY})(?:, (?:{KEY}))*)\]")
"""Keys in brackets; those of names, of columns for instance, stay as they are."""

RECIPES = {
    "kernel": "a kernel head (support vectors [svm] on the sample embeddings of the encoder, "
    "which stays as it is, and on the logarithms of the reads of the study's own ASVs)",
    "frozen": "a small network on the sample embeddings of the encoder, which stays as it is",
    "partial": "the encoder with its upper layers trained further",
    "full": "the encoder with all its weights trained further",
    "scratch": "a network like the encoder, trained from scratch",
}
"""What each recipe of a task is."""
KINDS = {
    "classification": "a classification",
    "ordinal": "an ordinal classification",
    "regression": "a regression",
}
"""What the methods call each kind of task."""


@dataclass(frozen=True)
class MethodsText:
    """The methods as one paragraph, and the works that it cites, in the order of their numbers."""

    text: str
    references: Sequence[str]


def methods_text(
    settings: PageSettings,
    encoders: Mapping[str, EncoderReport],
    answers: Sequence[Answer],
    versions: Mapping[str, str],
    facts: TableFacts = ASV_READS,
) -> MethodsText:
    """Return what was done to a dataset.

    Parameters
    ----------
    settings
        What they name of the configuration.
    encoders
        What pretraining wrote, by the name of the model.
    answers
        Those of the page, by `aam.report.page.answers.list_answers`.
    versions
        Versions of packages by name.
    facts
        What the table of the dataset holds and can do.
    """
    sentences = [
        *_describe_data(settings, facts),
        *_describe_encoders(settings.models, encoders),
        *_describe_tasks(settings.tasks, answers),
        *(_describe_learners(answers) if answers else ()),
        *(_describe_statistics(settings.tasks, answers) if answers else ()),
        "The analysis ran as a Snakemake workflow [snakemake]; study files were those of QIIME 2 "
        "[qiime2].",
        "Versions: " + ", ".join(f"{name} {version}" for name, version in versions.items()) + ".",
    ]
    text = Nouns.of_table(facts).rename_asvs(" ".join(sentences))
    return _number_citations(text)


def _describe_data(settings: PageSettings, facts: TableFacts) -> Iterator[str]:
    """Yield what was left out, how tables were rarefied, and which distances were computed."""
    nouns = Nouns.of_table(facts)
    features = "amplicon sequence variants (ASVs)" if nouns.one == "ASV" else nouns.many
    if settings.drops_long_branches:
        yield (
            f"{features[0].upper()}{features[1:]} behind branches of more than {LONG_BRANCH:g} "
            f"substitutions per site, which set apart at most {100 * LARGEST_OUTLIER:g} % of the "
            "tips of the tree, were left out."
        )
    draws = "1 draw" if settings.views == 1 else f"{settings.views} draws"
    if facts.is_counted:
        yield (
            f"Counts of {features} were rarefied to {settings.depth} reads per sample ({draws})."
        )
    else:
        yield f"Amounts of {features} were scaled to a sum of one per sample."
    if settings.given_tree is None and not facts.has_sequences:
        yield (
            f"The lineages of the {nouns.many} made the tree, in which each rank is one unit long."
        )
    prepared = "rarefied" if facts.is_counted else "scaled"
    metrics = [METRICS[name] for name in settings.metrics]
    if metrics:
        names = ", ".join(metric.label for metric in metrics)
        cited = " [unifrac, striped]" if any(metric.phylogenetic for metric in metrics) else ""
        yield f"Distances ({names}) were computed on the {prepared} tables{cited}."


def _describe_encoders(
    models: Mapping[str, PageModel], encoders: Mapping[str, EncoderReport]
) -> Iterator[str]:
    """Yield what each encoder is, what it began with, and how it was trained."""
    labels = name_models(models)
    for name, report in encoders.items():
        model = models[name]
        levels = (
            f"nucleotides to ASV to sample; {model.encoder}, width {model.width}, "
            f"{model.asv_layers} and {model.sample_layers} layers"
        )
        hidden = "masked nucleotides"
        if model.encoder == LINEAGE:
            levels = (
                "lineage to feature to sample; the sum of vectors of the ranks, width "
                f"{model.width}, then {model.sample_layers} layers"
            )
            hidden = "masked ranks"
        yield (
            f"The encoder of {labels[name]} is a hierarchical attention model ({levels}, "
            f"{report.parameters:,} parameters) [attention]."
        )
        if model.start:
            yield f"It began with the weights of {model.start}."
        if report.steps == 0:
            yield "It was used as it came, without training on this study."
            continue
        learned = "distances between samples"
        if report.nucleotide_accuracy is not None:
            learned += f" and {hidden}"
        yield (
            f"It was trained on this study without labels for {report.steps} steps to predict "
            f"{learned}."
        )


def _describe_tasks(settings: Mapping[str, PageTask], answers: Iterable[Answer]) -> Iterator[str]:
    """Yield what was predicted, of which samples, and in which folds, for each scored task."""
    scored = {answer.key.task: answer for answer in answers}
    for name, task in settings.items():
        if name not in scored:
            continue
        answer = scored[name]
        conditions = [f"{column} {' or '.join(values)}" for column, values in task.where.items()]
        samples = f"{answer.best.n} samples"
        if conditions:
            samples += f" with {' and '.join(conditions)}"
        columns = task.columns
        verb = "was" if len(columns) == 1 else "were"
        yield (
            f"{', '.join(columns)} ({KINDS[answer.kind]} of {samples}) {verb} predicted in "
            f"{_describe_folds(task.folds, len(answer.best.folds))}."
        )
        if task.test_fraction > 0:
            share = f"{100 * task.test_fraction:g} %"
            yield f"{share} of the samples had been set aside as a test set."
        for column, values in (task.test_values or {}).items():
            yield f"Samples with {column} {' or '.join(values)} had been set aside as a test set."
        further = answer.further.get(STUDIES)
        if further is not None and further.target.studies is not None:
            studies = further.target.studies
            yield (
                f"For samples of studies never seen, each {to_words(studies.column)} "
                f"({len(studies.studies)}) was also left out once, of nested steps too; scores by "
                "study, within which classes count alike, were averaged over the studies, which "
                "are the units of the test."
            )


def _describe_folds(folds: PageFolds, number: int) -> str:
    """Return how folds were drawn, or which column names them."""
    if folds.column is not None:
        return f"{number} folds, each of which leaves out one {to_words(folds.column)}"
    text = f"{number}-fold cross-validation"
    if folds.stratified:
        text += ", stratified by class"
    if folds.groups:
        text += f", samples of one {to_words(folds.groups)} in one fold"
    return text


def _describe_learners(answers: Sequence[Answer]) -> Iterator[str]:
    """Yield what predicted: AAM, baselines, and their mixture."""
    trainings = []
    for answer in answers:
        if answer.target.networks is not None and answer.target.networks.training is not None:
            trainings.append(answer.target.networks.training)
    if trainings:
        yield _describe_recipes(trainings)
    else:
        yield "No network was trained."
    inductive = [training for training in trainings if training.evaluation == "inductive"]
    if any(training.start != "scratch" for training in inductive):
        yield (
            "In inductive tasks an encoder was pretrained per fold, without the samples of the "
            "fold."
        )
    if any(answer.best.comparisons for answer in answers):
        yield "Baselines on the same folds were tuned within the training folds [sklearn]."
    yield from _describe_additions(answers)
    if any(answer.target.super_learner is not None for answer in answers):
        mixed = "AAM and all baselines" if trainings else "all methods"
        yield (
            f"A super learner mixes {mixed} but the constant [super_learner]; the weights for a "
            "fold rest on no model that saw the fold."
        )


def _describe_additions(answers: Sequence[Answer]) -> Iterator[str]:
    """Yield how covariates were taken into account, where there are some."""
    named = {}
    for answer in answers:
        if answer.target.addition is not None:
            named[answer.key.task] = name_covariates(answer.target.addition)
    if not named:
        return
    shown = "; ".join(f"{task}: {names}" for task, names in named.items())
    yield (
        f"What the features add was measured beside covariates ({shown}): these alone, by "
        "restricted cubic splines and a forest, the features alone, and both, by a mixture of "
        "these with a ridge and a forest on the features that learn what the splines leave, all "
        "with nested weights. Both and the covariates alone were compared by the test below, "
        "corrected [holm] for the number of such questions."
    )


def _describe_recipes(trainings: Sequence[NetworkTraining]) -> str:
    """Say of what the models of AAM are made."""
    used: set[str] = set()
    for training in trainings:
        used |= {"scratch"} if training.start == "scratch" else set(training.recipes)
    # Recipes that have no description here are named last.
    names = [name for name in RECIPES if name in used]
    names += sorted(used - set(names))
    parts = "; ".join(RECIPES.get(name, name) for name in names)
    if not any(len(training.recipes) > 1 for training in trainings):
        return f"In this analysis, AAM was {parts}."
    return (
        f"AAM mixes {len(names)} recipes with weights fitted to predictions for other samples: "
        f"{parts}."
    )


def _describe_statistics(
    settings: Mapping[str, PageTask], answers: Sequence[Answer]
) -> Iterator[str]:
    """Yield how scores were tested, and what the intervals and importances are."""
    kinds = {answer.kind for answer in answers}
    units = _name_units([answer.target.structure.independent for answer in answers])
    corrected = ""
    tests = max((answer.verdict.tests for answer in answers), default=0)
    if tests > 1:
        corrected = f" and, for differences to guessing, over the {tests} tests of this page"
    yield (
        "Differences to guessing (one over the number of classes for balanced accuracy, the "
        f"training median for numbers) and to baselines were tested by t-tests over {units}, with "
        "twice the variance of independent predictions, because the training sets of folds overlap "
        "[dependence]. Holm's correction [holm] was applied over the baselines of a "
        f"task{corrected}."
    )
    if any(method.interval is not None for one in answers for method in one.target.methods):
        yield "The 95 % intervals of scores are those of the same test."
    names = ["intervals"] if "regression" in kinds else []
    names += ["sets"] if kinds != {"regression"} else []
    yield (
        f"Prediction {' and '.join(names)} are cross-conformal: calibrated on the other folds "
        "[conformal]."
    )
    if kinds != {"regression"}:
        yield (
            "Probabilities of classes were calibrated on the other folds to how frequent the "
            "classes are; the predicted class is chosen with all classes counting alike."
        )
    if any(_is_explained(answer, settings) for answer in answers):
        yield (
            "The importance of an ASV is the mean size of its integrated gradients [gradients] "
            "over held-out samples, along the path from a reference: the same sample with every "
            "ASV replaced by the mean of its ASVs. It was checked against the change of the "
            "prediction when the ASV is removed."
        )


def _name_units(is_independent: Sequence[bool]) -> str:
    """Return what tests count: samples, or groups of them; a value per task."""
    if all(is_independent):
        return "samples"
    if not any(is_independent):
        return "whole groups of samples"
    return "samples, or over whole groups in tasks whose samples belong together"


def _is_explained(answer: Answer, settings: Mapping[str, PageTask]) -> bool:
    """Return whether the page shows which ASVs matter most to networks."""
    is_asked_for = settings[answer.key.task].importance
    return is_asked_for and bool(answer.networks) and not is_stopped(answer.kind, answer.target)


def _number_citations(text: str) -> MethodsText:
    """Return a text whose citations are numbers, and the works in the order of these."""
    number: dict[str, int] = {}
    for keys in CITATION.findall(text):
        for key in keys.split(", "):
            number.setdefault(key, len(number) + 1)

    def write_numbers(citation: re.Match[str]) -> str:
        return "[" + ", ".join(str(number[key]) for key in citation[1].split(", ")) + "]"

    return MethodsText(
        CITATION.sub(write_numbers, text), references=[REFERENCES[key] for key in number]
    )
