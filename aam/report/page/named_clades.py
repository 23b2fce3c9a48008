"""What the page says of the clades that a label depends on."""

from collections.abc import Iterator

import pandas as pd

from aam.data.lineages import read_rank
from aam.data.nouns import OF_ASVS, Nouns, split_lineage
from aam.data.predictions import CLADE_OF_TARGET, TARGET
from aam.report.labels import (
    choose_decimals,
    format_p_value,
    format_percent,
    format_quantity,
    shorten,
)
from aam.report.page.answers import Answer, is_stopped
from aam.report.page.tables import MOST_ROWS, Table

MOST_NAMED = 5
"""Clades that the sentence names; the table has all."""
LONGEST_NAME = 40
"""Letters of a clade without a taxon."""
NOTE_OF_MARKS = (
    "Named clade: the one that it lies in, of those whose {values} say something that all others "
    "do not; that is said of the clade, not of each of its members. Where there is none it cannot "
    "be told: what networks rest on may go along with something else."
)
"""Note to the features that matter most to networks."""
PASSED = 0.05
"""Largest p with which networks pass the test of a clade that is named."""
RATE = "one in ten"
"""Most names that are false on average (docs/explanation/importance.md)."""


def write_clades(
    answer: Answer,
    clades: pd.DataFrame | None,
    nouns: Nouns = OF_ASVS,
    losses: pd.DataFrame | None = None,
) -> str:
    """Return which clades a label depends on; empty where nobody looked, or nothing was learned.

    Parameters
    ----------
    answer
        One of `aam.report.page.answers.list_answers`.
    clades
        Table of `aam.stages.clades`; None: there is none.
    nouns
        What the features of the table are called.
    losses
        Table of `aam.stages.clade_losses`, or of the networks (`aam.stages.explain`); None: it was
        not measured.
    """
    if clades is None or is_stopped(answer.kind, answer.target):
        return ""
    found = _of_target(answer, clades)
    if not len(found):
        return (
            f"Which {nouns.many} or clades say something of {answer.what} that others do not "
            f"cannot be told with {answer.units}."
        )
    named = [_name_row(row, answer, nouns) for _, row in found.head(MOST_NAMED).iterrows()]
    more = len(found) - len(named)
    rest = f"; and {more} more in the table below" if more else ""
    return (
        f"These say something of {answer.what} that all other {nouns.value} do not: "
        f"{'; '.join(named)}{rest}. On average, at most {RATE} of such names is false."
        f"{_say_loss(answer, losses, nouns)}"
    )


def _say_loss(answer: Answer, losses: pd.DataFrame | None, nouns: Nouns) -> str:
    """Return what the answer loses without all named clades; empty where nobody measured."""
    if losses is None:
        return ""
    # The last row of a target is that of all of its clades together, or of the only one.
    rows = _of_target(answer, losses)
    row = rows.iloc[-1]
    changed = "error grows" if answer.kind == "regression" else "balanced accuracy falls"
    which = "this clade" if isinstance(row["clade"], str) and row["clade"] else "all of them"
    whose = "networks'" if _are_networks(losses) else "answer's"
    said = (
        f" With the {nouns.value} of similar samples in {which}, the {whose} {changed} by "
        f"{_format_loss(answer, row, ' (95 % interval {} to {})')}."
    )
    if _are_networks(losses):
        tested = rows["p"].dropna()
        passed = int((tested <= PASSED).sum())
        said += f" The networks pass the same test on {passed} of {len(tested)}."
    return said


def _are_networks(losses: pd.DataFrame) -> bool:
    """Return whether losses are those of networks, which are tested, too."""
    return "p" in losses


def _format_loss(answer: Answer, row: pd.Series, ends: str) -> str:
    """Return a loss with its interval, if there is one; `ends` says how this is written."""
    values = row["loss"], row["low"], row["high"]
    if answer.kind == "regression":
        decimals = choose_decimals(row["score"] / 10)
        loss, low, high = (f"{value:,.{decimals}f}" for value in values)
        if answer.unit is not None:
            loss += f" {answer.unit}"
    else:
        loss, low, high = (format_percent(value, 1) for value in values)
    return loss if pd.isna(row["low"]) else loss + ends.format(low, high)


def clade_tables(
    answer: Answer,
    clades: pd.DataFrame | None,
    nouns: Nouns = OF_ASVS,
    losses: pd.DataFrame | None = None,
) -> Iterator[Table]:
    """Yield the table of the clades that a label depends on, where there are some.

    The parameters are those of `write_clades`.
    """
    if clades is None or is_stopped(answer.kind, answer.target):
        return
    found = _of_target(answer, clades)
    if not len(found):
        return
    columns = map(str, found)
    classes = [name.removeprefix("log_ratio:") for name in columns if name.startswith("log_ratio:")]
    header = ["clade", f"{nouns.many} in it", "p", "loss", "folds"]
    has_draws = found["draws"].notna().all()
    header += ["draws", "in samples"] if has_draws else ["in samples"]
    header += [f"log-ratio: {name}" for name in classes] or ["Spearman"]
    header.append(f"most frequent of its {nouns.many}")
    of_networks = losses if losses is not None and _are_networks(losses) else None
    if of_networks is not None:
        header[4:4] = ["networks' p", "networks' loss"]
    loss_of = {}
    p_of = {}
    if losses is not None:
        for _, row in _of_target(answer, losses).iterrows():
            loss_of[row["clade"]] = _format_loss(answer, row, " [{}, {}]")
            p_of[row["clade"]] = _short_p(row["p"]) if of_networks is not None else ""
    rows = []
    for _, row in found.iterrows():
        cells = [
            short_name(row),
            f"{row['features']:.0f}",
            _short_p(row["p"]),
            *(
                [format_percent(row["effect"], 1), p_of[row["clade"]], loss_of[row["clade"]]]
                if of_networks is not None
                else [loss_of.get(row["clade"]) or format_percent(row["effect"], 1)]
            ),
            f"{row['folds']:.0f}",
            *([f"{row['draws']:.0f}"] if has_draws else []),
            format_percent(row["prevalence"]),
        ]
        for name in classes:
            low, high = row[f"low:{name}"], row[f"high:{name}"]
            cells.append(f"{row[f'log_ratio:{name}']:.1f} [{low:.1f}, {high:.1f}]")
        if not classes:
            cells.append(f"{row['correlation']:+.2f}")
        cells.append(shorten(str(row["representative"])))
        rows.append(cells)
    again = "Draws: of five others of rarefaction, those with p at most 0.05. " if has_draws else ""
    whose = "held-out predictions of a ridge on clades lose of the label's variance"
    asked = ""
    if of_networks is not None:
        asked = (
            f"Networks' p and loss: the same test, and what their score loses, with a 95 % "
            f"interval, of {of_networks['samples'].iloc[0]:.0f} held-out samples. "
        )
    elif loss_of:
        whose = "the answer loses of its score, with a 95 % interval"
    note = (
        f"Loss: what {whose} where the {nouns.value} of the clade are those of similar samples; "
        f"folds: in how many a ridge on clades loses. {asked}{again}Log-ratio: of the clade to all "
        "else, mean over units, with a 95 % interval."
    )
    title = f"Clades that say something of {answer.what} beyond all other {nouns.value}"
    yield Table(title, header, rows, note=note, file="clades.tsv")


def _short_p(p: float) -> str:
    """Return a p-value as the cell of a table."""
    return format_p_value(p).removeprefix("p = ").removeprefix("p ")


def effect_tables(
    answer: Answer, name: str, effects: pd.DataFrame, nouns: Nouns = OF_ASVS
) -> Iterator[Table]:
    """Yield the table of what moved the predictions for another table, where clades are named.

    Parameters
    ----------
    answer
        One of `aam.report.page.answers.list_answers`.
    name
        Name of the other table.
    effects
        Effects as `aam.inference.clade_effects.explain_by_clades` returns them.
    nouns
        What the features of the table are called.
    """
    found = _of_target(answer, effects)
    if is_stopped(answer.kind, answer.target) or not len(found):
        return
    shown = found.head(MOST_ROWS)
    is_class = answer.kind != "regression"
    rows = [
        [
            str(row["sample-id"]),
            row["predicted"] if is_class else format_quantity(row["predicted"]),
            short_name(row),
            f"{row['effect']:+.2f}" if is_class else f"{row['effect']:+.3g}",
            format_percent(row["share"], 1),
            format_percent(row["share_alike"], 1),
        ]
        for _, row in shown.iterrows()
    ]
    header = ["sample", "predicted", "clade", "effect", f"of its {nouns.value}", "of alike ones"]
    of_what = "the probability of the class, before it is calibrated" if is_class else answer.what
    alike = "class" if is_class else "tenth of the labels"
    note = (
        f"Effect: on {of_what}; the prediction less that with the {nouns.value} of similar samples "
        f"in the clade. Of alike ones: the median of training samples of the predicted {alike}."
    )
    title = f"Clades that moved the predictions for {name}"
    more = len(found) - len(shown)
    yield Table(title, header, rows, note=note, left_out=more, file=f"{name}.clades.tsv")


def mark_named(
    answer: Answer, importance: pd.DataFrame, clades: pd.DataFrame, features: pd.DataFrame
) -> pd.DataFrame:
    """Return important features with the named clade that each lies in, empty where in none.

    Parameters
    ----------
    answer
        One of `aam.report.page.answers.list_answers`.
    importance
        Rows of an `importance.tsv`.
    clades, features
        Tables of `aam.stages.clades`: the clades, and which feature is in which.
    """
    names = {row["clade"]: short_name(row) for _, row in _of_target(answer, clades).iterrows()}
    of_target = f"{CLADE_OF_TARGET}{answer.key.column}"
    # Without any named clade, the table of clades does not tell targets apart.
    column = of_target if of_target in features else "clade"
    name_of = features.set_index("feature-id")[column].map(names)
    marked = importance.copy()
    marked.insert(1, "named clade", importance["feature-id"].map(name_of).fillna(""))
    return marked


def short_name(row: pd.Series) -> str:
    """Return the lowest known rank of a clade, or the ID of its most frequent feature.

    Parameters
    ----------
    row
        Of the table of `aam.stages.clades`.
    """
    ranks = split_lineage(row["taxon"]) if isinstance(row["taxon"], str) else []
    if not ranks:
        return shorten(str(row["clade"]), LONGEST_NAME)
    rank, name = read_rank(ranks[-1], len(ranks) - 1)
    return f"{rank} {name}".strip()


def _of_target(answer: Answer, clades: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of an answer's target."""
    if TARGET not in clades:
        return clades
    return clades[clades[TARGET] == answer.key.column]


def _name_row(row: pd.Series, answer: Answer, nouns: Nouns) -> str:
    """Return a clade in words: its name, its size and its direction."""
    many = int(row["features"])
    size = f"{many} {nouns.many}" if many > 1 else f"one {nouns.one}"
    how = f"{row['direction']} with it"
    if answer.kind != "regression":
        how = f"most in {row['direction']}"
    return f"{short_name(row)} ({size}; {how})"
