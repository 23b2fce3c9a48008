"""The methods of a dataset's page, as sentences to be copied, with the works they cite.

A sentence is a function of settings and counts. It cites by the key of `REFERENCES` in brackets,
`[unifrac]` for instance; `methods_text` replaces the keys by numbers.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aam.config.metrics import METRICS
from aam.config.names import name_models
from aam.data.outliers import LARGEST_OUTLIER, LONG_BRANCH
from aam.report.labels import KERNEL_MACHINE, to_words
from aam.report.page.answers import has_score_interval
from aam.report.page.reports import is_baseline
from aam.report.page.verdicts import is_stopped

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
    "t_test": "Nadeau C, Bengio Y. Inference for the generalization error. Mach Learn 2003;52:239.",
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
    "kernel": "a kernel machine (support vectors [svm] on the sample embeddings of the encoder, "
    "which stays as it is, and on the logarithms of the reads of the study's own ASVs)",
    "frozen": "a small network on the sample embeddings of the encoder, which stays as it is",
    "partial": "the encoder with its upper layers trained further",
    "full": "the encoder with all its weights trained further",
    "scratch": "a network like the encoder, trained from scratch",
}
"""What each recipe of a task is."""
STAND_INS = {
    KERNEL_MACHINE: "a kernel machine (support vectors [svm] on centred log-ratios of the reads)",
}
"""What the baselines are that stand in for a model, where their name does not say it."""
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
    settings: Mapping[str, Any],
    encoders: Mapping[str, Mapping[str, Any]],
    reports: Sequence[Mapping[str, Any]],
    versions: Mapping[str, str],
) -> MethodsText:
    """Return what was done to a dataset.

    Parameters
    ----------
    settings
        The slice `aam.config.slices.summary`.
    encoders
        Metrics of pretraining by the name of the encoder.
    reports
        Reports of the page, one per model and target.
    versions
        Versions of packages by name.
    """
    sentences = [
        *([describe_long_branches()] if settings["drops_long_branches"] else []),
        describe_rarefaction(settings["depth"], settings["views"]),
        *describe_distances(settings["metrics"]),
        *_describe_encoders(settings["models"], encoders),
        *_describe_tasks(settings["tasks"], reports),
        *_describe_learners(reports),
        *_describe_statistics(settings["tasks"], reports),
        describe_workflow(),
        "Versions: " + ", ".join(f"{name} {version}" for name, version in versions.items()) + ".",
    ]
    return _number_citations(" ".join(sentences))


def describe_rarefaction(depth: int, views: int) -> str:
    """Say how tables were rarefied."""
    draws = "1 draw" if views == 1 else f"{views} draws"
    return (
        f"Counts of amplicon sequence variants (ASVs) were rarefied to {depth} reads per sample "
        f"({draws})."
    )


def describe_long_branches() -> str:
    """Say which ASVs were left out before rarefaction."""
    return (
        f"Amplicon sequence variants (ASVs) behind branches of more than {LONG_BRANCH:g} "
        f"substitutions per site, which set apart at most {100 * LARGEST_OUTLIER:g} % of the tips "
        "of the tree, were left out."
    )


def describe_distances(metrics: Sequence[str]) -> Iterator[str]:
    """Yield which distances were computed, where there are any."""
    if not metrics:
        return
    names = ", ".join(METRICS[metric].label for metric in metrics)
    cited = " [unifrac, striped]" if any(METRICS[name].phylogenetic for name in metrics) else ""
    yield f"Distances ({names}) were computed on the rarefied tables{cited}."


def describe_encoder(name: str, model: Mapping[str, Any], parameters: int) -> str:
    """Say what the encoder of a model is made of; `name` is what the page calls the model."""
    return (
        f"The encoder of {name} is a hierarchical attention model (nucleotides to ASV to sample; "
        f"{model['encoder']}, width {model['width']}, {model['asv_layers']} and "
        f"{model['sample_layers']} layers, {parameters:,} parameters) [attention]."
    )


def describe_start(start: str) -> str:
    """Say what weights an encoder began with."""
    return f"It began with the weights of {start}."


def describe_pretraining(steps: int, *, nucleotides: bool) -> str:
    """Say how an encoder was trained on the study, or that it was not.

    Parameters
    ----------
    steps
        Number of training steps.
    nucleotides
        Whether it learned to predict masked nucleotides, too.
    """
    if steps == 0:
        return "It was used as it came, without training on this study."
    learned = (
        "distances between samples and masked nucleotides"
        if nucleotides
        else ("distances between samples")
    )
    return f"It was trained on this study without labels for {steps} steps to predict {learned}."


def describe_task(
    columns: Sequence[str],
    kind: str,
    n: int,
    folds: str,
    *,
    where: Mapping[str, Sequence[str]],
    test_fraction: float,
) -> str:
    """Say what was predicted, of which samples, and in which folds.

    Parameters
    ----------
    columns
        Columns of the metadata that were predicted.
    kind
        Kind of the task.
    n
        Number of samples in the folds.
    folds
        How the samples were divided.
    where
        Columns of the metadata and the values that a sample had to have.
    test_fraction
        Fraction of the samples that was set aside for testing alone.
    """
    verb = "was" if len(columns) == 1 else "were"
    chosen = " and ".join(f"{column} {' or '.join(values)}" for column, values in where.items())
    samples = f"{n} samples with {chosen}" if chosen else f"{n} samples"
    text = f"{', '.join(columns)} ({KINDS[kind]} of {samples}) {verb} predicted in {folds}."
    if test_fraction > 0:
        text += f" {100 * test_fraction:g} % of the samples had been set aside as a test set."
    return text


def describe_drawn_folds(number: int, groups: str | None, *, stratified: bool) -> str:
    """Say how folds were drawn."""
    text = f"{number}-fold cross-validation"
    if stratified:
        text += ", stratified by class"
    if groups:
        text += f", samples of one {to_words(groups)} in one fold"
    return text


def describe_folds_of_column(number: int, column: str) -> str:
    """Say that a column of the metadata names the folds."""
    return f"{number} folds, each of which leaves out one {to_words(column)}"


def describe_recipes(names: Sequence[str], *, mixed: bool) -> str:
    """Say of what the models of AAM are made."""
    parts = "; ".join(RECIPES.get(name, name) for name in names)
    if not mixed:
        return f"In this analysis, AAM was {parts}."
    return (
        f"AAM mixes {len(names)} recipes with weights fitted to predictions for other samples: "
        f"{parts}."
    )


def describe_stand_ins(names: Sequence[str]) -> str:
    """Say what stood in for a model, where no network was trained."""
    parts = "; ".join(STAND_INS.get(name, f"the {name}") for name in names)
    return f"No network was trained. The method that all others were compared with was {parts}."


def describe_inductive() -> str:
    """Say that encoders were pretrained per fold."""
    return "In inductive tasks an encoder was pretrained per fold, without the samples of the fold."


def describe_baselines() -> str:
    """Say how the baselines were tuned."""
    return "Baselines on the same folds were tuned within the training folds [sklearn]."


def describe_super_learner(*, networks: bool, nested: bool) -> str:
    """Say how the super learner is mixed, and whether networks are a part of it."""
    mixed = "AAM and all baselines" if networks else "all methods"
    text = f"A super learner mixes {mixed} but the constant [super_learner]"
    if nested:
        return f"{text}; the weights for a fold rest on no model that saw the fold."
    return f"{text}, with weights fitted to the predictions for the other folds."


def describe_tests(corrected: int) -> str:
    """Say how differences were tested; `corrected` is the number of tests of the page."""
    text = (
        "Differences to guessing (one over the number of classes for balanced accuracy, the "
        "training median for numbers) and to baselines were tested by the corrected resampled "
        "t-test over folds [t_test]. Holm's correction [holm] was applied over the baselines of a "
        "task"
    )
    if corrected == 1:
        return f"{text}."
    return f"{text} and, for differences to guessing, over the {corrected} tests of this page."


def describe_score_intervals(*, groups: bool, singles: bool) -> str:
    """Say what the intervals of scores are; `groups` and `singles`: what tasks have draws of."""
    units = "samples"
    if groups:
        units = "whole groups of samples"
    if groups and singles:
        units = "samples, or of whole groups in tasks whose samples belong together"
    return (
        "Intervals of scores are 95 % t intervals with bootstrap standard errors, from draws of "
        f"{units}."
    )


def describe_prediction_intervals(*, classes: bool, numbers: bool) -> str:
    """Say what the intervals of single predictions are."""
    kinds = []
    if numbers:
        kinds.append("intervals")
    if classes:
        kinds.append("sets")
    return (
        f"Prediction {' and '.join(kinds)} are cross-conformal: calibrated on the other folds "
        "[conformal]."
    )


def describe_probabilities() -> str:
    """Say how probabilities were calibrated."""
    return (
        "Probabilities of classes were calibrated on the other folds to how frequent the classes "
        "are; the predicted class is chosen with all classes counting alike."
    )


def describe_importances() -> str:
    """Say how the importance of ASVs was computed."""
    return (
        "The importance of an ASV is the mean size of its integrated gradients [gradients] over "
        "held-out samples, along the path from a reference: the same sample with every ASV "
        "replaced by the mean of its ASVs. It was checked against the change of the prediction "
        "when the ASV is removed."
    )


def describe_workflow() -> str:
    """Say what ran the analysis."""
    return (
        "The analysis ran as a Snakemake workflow [snakemake]; study files were those of QIIME 2 "
        "[qiime2]."
    )


def _describe_encoders(
    models: Mapping[str, Mapping[str, Any]], encoders: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    """Yield what each encoder is, what it began with, and how it was trained."""
    labels = name_models(models)
    for name, metrics in encoders.items():
        yield describe_encoder(labels[name], models[name], metrics["parameters"])
        start = models[name]["start"]
        if start:
            yield describe_start(start)
        yield describe_pretraining(metrics["steps"], nucleotides="nucleotide_accuracy" in metrics)


def _describe_tasks(
    settings: Mapping[str, Mapping[str, Any]], reports: Iterable[Mapping[str, Any]]
) -> Iterator[str]:
    """Yield a sentence per task of the configuration that has a report."""
    scored = {_task_name(report): report for report in reports}
    for name, one in settings.items():
        if name in scored:
            report = scored[name]
            folds = _describe_folds(one["folds"], len(report["folds"]))
            yield describe_task(
                one["columns"],
                report["kind"],
                report["n"],
                folds,
                where=one["where"],
                test_fraction=one["test_fraction"],
            )


def _task_name(report: Mapping[str, Any]) -> str:
    """Return the name of a report's task; that of the report has the column of several, too."""
    return report["task"].partition(", ")[0]


def _describe_folds(folds: Mapping[str, Any], number: int) -> str:
    if folds["column"] is not None:
        return describe_folds_of_column(number, folds["column"])
    return describe_drawn_folds(number, folds["groups"] or None, stratified=folds["stratified"])


def _describe_learners(reports: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what predicted: AAM, baselines, and their mixture."""
    if not reports:
        return
    network_reports = [report for report in reports if not is_baseline(report)]
    if network_reports:
        mixed = any(len(report["recipes"]) > 1 for report in network_reports)
        yield describe_recipes(_name_recipes(network_reports), mixed=mixed)
    else:
        yield describe_stand_ins(list(dict.fromkeys(report["model"] for report in reports)))
    if any(_is_pretrained_by_fold(report) for report in network_reports):
        yield describe_inductive()
    if any(report["comparisons"] for report in reports):
        yield describe_baselines()
    mixtures = [report["super_learner"] for report in reports if "super_learner" in report]
    if mixtures:
        nested = all("unnested" in mixture for mixture in mixtures)
        yield describe_super_learner(networks=bool(network_reports), nested=nested)


def _name_recipes(reports: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the recipes of all models, those that `RECIPES` describes first, in its order."""
    names: set[str] = set()
    for report in reports:
        names |= {"scratch"} if report["start"] == "scratch" else set(report["recipes"])
    described = [name for name in RECIPES if name in names]
    return [*described, *sorted(names - set(described))]


def _is_pretrained_by_fold(report: Mapping[str, Any]) -> bool:
    return report["evaluation"] == "inductive" and report["start"] != "scratch"


def _describe_statistics(
    settings: Mapping[str, Mapping[str, Any]], reports: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """Yield how scores were tested, and what the intervals and importances are."""
    if not reports:
        return
    kinds = {report["kind"] for report in reports}
    yield describe_tests(len(reports))
    with_interval = [report for report in reports if has_score_interval(report)]
    if with_interval:
        is_independent = [report["structure"]["independent"] for report in with_interval]
        yield describe_score_intervals(groups=not all(is_independent), singles=any(is_independent))
    yield describe_prediction_intervals(
        classes=kinds != {"regression"}, numbers="regression" in kinds
    )
    if kinds != {"regression"}:
        yield describe_probabilities()
    if any(_is_explained(report, settings) for report in reports):
        yield describe_importances()


def _is_explained(report: Mapping[str, Any], settings: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether the page shows which ASVs matter most to the model of a report."""
    is_asked_for = settings[_task_name(report)]["importance"]
    return is_asked_for and not is_baseline(report) and not is_stopped(report)


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
