"""What the page has of each task: its answer, lights, sentences, figures and tables."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from aam.data.nouns import OF_ASVS, Nouns
from aam.data.predictions import by_target
from aam.evaluate.importance import TAXON, TOP_ASVS
from aam.evaluate.task_report import TargetKey, TaskReport
from aam.report.page.additions import addition_sentences, addition_table, write_addition
from aam.report.page.answers import Answer, is_stopped, list_answers, write_answer
from aam.report.page.cautions import list_cautions
from aam.report.page.details import task_sentences, trains_networks
from aam.report.page.forecast import forecast_sentences, forecast_tables, write_forecast
from aam.report.page.named_clades import (
    NOTE_OF_MARKS,
    clade_tables,
    effect_tables,
    mark_named,
    write_clades,
)
from aam.report.page.people import people_sentences, people_tables, write_people
from aam.report.page.render import Commands, PageFigure, TaskSection
from aam.report.page.tables import (
    Table,
    comparison_table,
    from_frame,
    other_groups_table,
    prediction_table,
    rival_table,
    score_table,
    subset_tables,
)
from aam.report.page.unseen_studies import studies_sentences, studies_tables, write_studies

TRAINING = "Training curves"
"""Title of the figures that the page folds away."""
PREDICTIONS = "Predictions"
"""Title of the figures that show the predictions of an answer."""
OTHERS = "The other methods"
"""Title of the figures of the other methods, which the page links to."""
NAMED_CLADES = "Named clades"
"""Title of the figures of clades, where some are named."""
IMPORTANCE = "Important ASVs"
"""Title of the figures that the page leaves out under a red light."""
MOST_ASVS = 100
"""ASVs of a table of importance that the page shows."""


@dataclass(frozen=True)
class AnswerFiles:
    """What was written of one answer to a task."""

    report: TaskReport
    cross_validated: pd.DataFrame
    clades: pd.DataFrame | None = None
    """The clades that labels of the task depend on; None: they were not looked for."""
    clade_features: pd.DataFrame | None = None
    """The named clade of each feature; None: it is not asked for."""
    clade_losses: pd.DataFrame | None = None
    """What the answer loses without each named clade; None: it was not measured."""
    importance: pd.DataFrame | None = None
    """None: the configuration does not ask for it, or there are no networks."""
    figures: Sequence[PageFigure] = ()
    predictions: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """Predictions for other tables, by what the page calls them."""
    effects: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """Effects of clades on predictions for other tables, by the names of these."""


def task_sections(
    all_files: Iterable[AnswerFiles], nouns: Nouns = OF_ASVS
) -> Iterator[TaskSection]:
    """Yield a section per answer and target, those of a target one after the other.

    Parameters
    ----------
    all_files
        What was written of each answer of the page, in the order of tasks.
    nouns
        What the features and the values of the table are called.
    """
    files = {(one.report.task, one.report.answer): one for one in all_files}
    answers = list_answers([one.report for one in files.values()])
    of_target: dict[TargetKey, list[Answer]] = {}
    for answer in answers:
        of_target.setdefault(answer.key, []).append(answer)
    for members in of_target.values():
        shared = [score_table(members), *subset_tables(members)]
        for answer in members:
            written = files[answer.report.task, answer.report.answer]
            is_explained = written.importance is not None
            sentences = task_sentences(answer, is_explained=is_explained)
            yield TaskSection(
                name=answer.name,
                model=answer.networks if len(members) > 1 else "",
                answer=write_answer(answer),
                addition=write_addition(answer, nouns),
                studies=write_studies(answer),
                people=write_people(answer),
                forecast=write_forecast(answer),
                clades=write_clades(answer, written.clades, nouns, written.clade_losses),
                cautions=list_cautions(answer),
                sentences=[
                    *map(nouns.rename_asvs, sentences),
                    *addition_sentences(answer, nouns),
                    *studies_sentences(answer),
                    *people_sentences(answer),
                    *forecast_sentences(answer),
                ],
                figures=[
                    *(
                        _name_owner(one, answer)
                        for one in written.figures
                        if _is_shown(one, answer, written.clades, nouns)
                    ),
                    *_figures_of_further(answer, files),
                ],
                linked=_figures_of_others(answer, written.figures),
                training=_training_curves(answer, written.figures),
                tables=[*shared, *_make_tables(answer, written, nouns)],
                # Features without sequences cannot be named by them.
                commands=list(_write_commands(answer, written.importance))
                if nouns == OF_ASVS
                else [],
            )


def _figures_of_further(
    answer: Answer, files: Mapping[tuple[str, str], AnswerFiles]
) -> Iterator[PageFigure]:
    """Yield the figures of further questions about a target, which have files of their own."""
    for further in answer.further.values():
        yield from files[further.report.task, further.report.answer].figures


def _training_curves(answer: Answer, figures: Iterable[PageFigure]) -> list[PageFigure]:
    """Return the training curves of a target for which a network was trained."""
    if not trains_networks(answer.target):
        return []
    return [figure for figure in figures if figure.title == TRAINING]


def _is_shown(
    figure: PageFigure, answer: Answer, clades: pd.DataFrame | None, nouns: Nouns
) -> bool:
    """Return whether a figure stands open on the page."""
    if figure.title == NAMED_CLADES:
        return any(clade_tables(answer, clades, nouns))
    if figure.title == nouns.rename_asvs(IMPORTANCE):
        return not is_stopped(answer.kind, answer.target)
    return figure.title not in (TRAINING, OTHERS)


def _name_owner(figure: PageFigure, answer: Answer) -> PageFigure:
    """Return a figure; one of predictions says whose they are in its title and caption."""
    if figure.title != PREDICTIONS:
        return figure
    whose = f"Predictions of {answer.owner}"
    how = ""
    if answer.best.role == "super learner":
        how = ", whose weights for a fold rest on the other folds alone"
    return replace(figure, title=whose, caption=f"{whose}{how}. {figure.caption}")


def _figures_of_others(answer: Answer, figures: Iterable[PageFigure]) -> list[PageFigure]:
    """Return the figures of the other methods of a target, where it has some."""
    if not answer.target.others:
        return []
    return [figure for figure in figures if figure.title == OTHERS]


def _make_tables(answer: Answer, files: AnswerFiles, nouns: Nouns) -> Iterator[Table]:
    """Yield the tables of one answer: covariates, comparisons, predictions, important ASVs."""
    if answer.target.addition is not None:
        yield addition_table(answer, nouns)
    yield from studies_tables(answer)
    yield from people_tables(answer)
    yield from forecast_tables(answer)
    for method in (answer.target.super_learner, answer.target.networks):
        if method is not None and method.comparisons:
            yield comparison_table(answer, method)
    yield from clade_tables(answer, files.clades, nouns, files.clade_losses)
    if answer.target.rivals:
        yield rival_table(answer)
    if answer.target.other_groups:
        yield other_groups_table(answer)
    cross_validated = by_target(files.cross_validated)[answer.key.column]
    title = f"Cross-validated predictions of {answer.owner}"
    yield from_frame(title, cross_validated, "predictions.tsv")
    if files.importance is not None and not is_stopped(answer.kind, answer.target):
        most = files.importance.head(MOST_ASVS)
        title = (
            f"The {nouns.many} that matter most to the {answer.networks} model for {answer.what}"
        )
        if files.clades is None or files.clade_features is None:
            yield from_frame(title, most, "importance.tsv")
        else:
            most = mark_named(answer, most, files.clades, files.clade_features)
            marked = from_frame(title, most, "importance.tsv")
            yield replace(marked, note=NOTE_OF_MARKS.format(values=nouns.value))
    for name, table in files.predictions.items():
        yield prediction_table(f"Predictions for {name}", table)
    for name, effects in files.effects.items():
        yield from effect_tables(answer, name, effects, nouns)


def _write_commands(answer: Answer, importance: pd.DataFrame | None) -> Iterator[Commands]:
    """Yield what names the most important ASVs, where they are shown without taxa."""
    if importance is None or TAXON in importance or is_stopped(answer.kind, answer.target):
        return
    fasta = f"finetune/{answer.report.answer}/{answer.report.task}/{TOP_ASVS}"
    yield Commands(
        "Names for the most important ASVs",
        "This study has no taxonomy. In QIIME 2 these commands name the most important ASVs; "
        "classifier.qza is one that was trained for the region of your primers. For names on this "
        "page, set the key taxonomy of the dataset to the result and run again.",
        [
            "qiime tools import --type 'FeatureData[Sequence]' "
            f"--input-path {shlex.quote(fasta)} --output-path top-asvs.qza",
            "qiime feature-classifier classify-sklearn --i-classifier classifier.qza "
            "--i-reads top-asvs.qza --o-classification taxonomy.qza",
        ],
    )
