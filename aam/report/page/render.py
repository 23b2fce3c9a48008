"""The page itself, one file without references to others, from Jinja templates; its summary."""

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from aam.data.nouns import OF_ASVS
from aam.report.labels import to_words
from aam.report.page.cautions import Caution
from aam.report.page.methods import MethodsText
from aam.report.page.tables import Table

FOLDER = Path(__file__).parent
COLOURS = {
    "#ffffff": "var(--paper)",
    "#222222": "currentColor",
    "#000000": "currentColor",
    "#e6e6e6": "var(--rule)",
}
"""Colours of figures, in lower case, and what replaces them on a light or a dark page."""
EMPTY = Table("", (), ())


@dataclass(frozen=True)
class PageFigure:
    """A figure as SVG, with its title and caption."""

    title: str
    caption: str
    svg: str
    link: str = ""
    """Path of its file, relative to the page."""


@dataclass(frozen=True)
class Commands:
    """Lines to copy into a terminal, under a title and a sentence."""

    title: str
    text: str
    lines: Sequence[str]


@dataclass(frozen=True)
class TaskSection:
    """What one model found in one task, or in one target of it."""

    name: str
    """Name of the task, with the column where it has several targets."""
    model: str
    """What the section calls the model; empty where the task has one alone."""
    answer: str
    cautions: Sequence[Caution]
    """Lights, the red ones first."""
    addition: str = ""
    """What the features add to covariates; empty where there are none."""
    studies: str = ""
    """How the target is predicted in a study never seen; empty where nobody asked."""
    people: str = ""
    """How it is predicted between and within people; empty where nobody asked."""
    forecast: str = ""
    """How later samples are predicted from earlier ones; empty where nobody asked."""
    clades: str = ""
    """Which clades the label depends on; empty where nobody looked."""
    sentences: Sequence[str] = ()
    """Details below the answer."""
    figures: Sequence[PageFigure] = ()
    """Figures that stand open."""
    training: Sequence[PageFigure] = ()
    """Training curves, which the page folds away."""
    linked: Sequence[PageFigure] = ()
    """Figures that the page leaves in their files, and links to."""
    tables: Sequence[Table] = ()
    commands: Sequence[Commands] = ()

    @property
    def title(self) -> str:
        """The heading of the section."""
        words = to_words(self.name)
        return f"{words}, {self.model}" if self.model else words


@dataclass(frozen=True)
class EncoderSection:
    """What one encoder learned without labels."""

    name: str
    text: str
    figures: Sequence[PageFigure] = ()


@dataclass(frozen=True)
class Results:
    """All that a page shows of a dataset."""

    dataset: str
    tasks: Sequence[TaskSection]
    encoders: Sequence[EncoderSection]
    cautions: Sequence[Caution] = ()
    """Lights of the whole dataset: encoders, rarefaction, and predictions for other tables."""
    networks: str = ""
    """What a page without networks says about them at its end."""
    decisions: Sequence[str] = ()
    """What was decided for the user while the files were read."""
    rarefied: str = OF_ASVS.many
    """What the features of a rarefied table are called; empty: the table has amounts."""
    left_out: Sequence[str] = ()
    data_figures: Sequence[PageFigure] = ()
    methods: MethodsText = MethodsText("", ())
    files: Sequence[str] = ()
    """Links to tables and scores."""
    made_from: Table = EMPTY
    """The version that wrote each file of scores, and the digest of its settings."""


def render_page(results: Results) -> str:
    """Return the HTML of a page: it needs no network, and says all without its script.

    Parameters
    ----------
    results
        All that the page shows.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    numbers = itertools.count()

    def inline(shown: PageFigure) -> Markup:
        return _inline(shown, next(numbers))

    environment.filters["inline"] = inline
    environment.filters["words"] = _mark_up
    environment.filters["anchor"] = _make_anchor
    environment.filters["unbroken"] = _join_numbers
    return environment.get_template("page.html").render(
        results=results,
        css=Markup((FOLDER / "page.css").read_text("utf-8")),
        js=Markup((FOLDER / "page.js").read_text("utf-8")),
    )


def render_summary(results: Results, page: str) -> str:
    """Return the answers of a page and what limits the trust in them, as Markdown.

    Parameters
    ----------
    results
        All that the page shows.
    page
        File of the page, relative to the summary.
    """
    parts = [f"# Results of `{results.dataset}`", f"All of it, with figures: [{page}]({page})."]
    for name, sections in itertools.groupby(results.tasks, key=lambda section: section.name):
        parts.append(f"## {name}")
        for section in sections:
            several = f"**{section.model}**: " if section.model else ""
            parts.append(several + section.answer)
            further = (section.addition, section.studies, section.people, section.forecast)
            parts += [text for text in further if text]
            parts += _list_items(caution.text for caution in section.cautions)
    if results.decisions:
        parts += ["## Decided for you", *_list_items(results.decisions)]
    if results.encoders:
        parts.append("## Encoders")
    elif results.cautions:
        parts.append("## What limits the trust")
    parts += _list_items(caution.text for caution in results.cautions)
    parts += [f"**{encoder.name}**: {encoder.text}" for encoder in results.encoders]
    if results.left_out:
        parts += ["## Left out", *_list_items(results.left_out)]
    if results.networks:
        parts += ["## Networks", results.networks]
    return "\n\n".join(parts) + "\n"


def _list_items(lines: Iterable[str]) -> list[str]:
    """Return one list of Markdown, or none."""
    text = "\n".join(f"- {line}" for line in lines)
    return [text] if text else []


def render_caption(template: str, wildcards: Mapping[str, str], config: Mapping[str, Any]) -> str:
    """Return a caption of Snakemake's report, reStructuredText, as Snakemake fills it in.

    Parameters
    ----------
    template
        Content of a file in `workflow/report`.
    wildcards, config
        What it has as `snakemake.wildcards` and `snakemake.config`.
    """
    variables = {"wildcards": wildcards, "config": config}
    return jinja2.Template(template).render(snakemake=variables)


def _make_anchor(name: str) -> str:
    """Return a name as the anchor of a section."""
    return re.sub(r"[\W_]+", "-", name).strip("-")


def _join_numbers(text: str) -> str:
    """Return a sentence whose percentages and p-values do not break over lines."""
    return re.sub(r"(?<=\d) (?=%)|(?<=\bp) (?=[<>=])|(?<=\bp [<>=]) (?=\d)", "\u00a0", text)


def _mark_up(text: str) -> Markup:
    """Return a caption's double backticks and asterisks as HTML."""
    marked = re.sub(r"``(.+?)``", r"<code>\1</code>", str(escape(" ".join(text.split()))))
    return Markup(re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", marked))


def _inline(shown: PageFigure, number: int) -> Markup:
    """Return an SVG to put into the page: no other has its IDs, and its colours are the page's.

    Parameters
    ----------
    shown
        The figure.
    number
        A number that no other figure of the page has.
    """
    body = shown.svg[shown.svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", body, flags=re.S)
    box = re.search(r'viewBox="([^"]+)"', body)
    assert box is not None, "an SVG without a viewBox"
    body = _change_tags(_number_ids(body, number), _adopt_colours)
    # The tag of the page replaces that of the file, which ends at the first bracket.
    body = re.sub(r">\s+<", "><", body[body.index(">") + 1 :])
    width = float(box[1].split()[2])
    return Markup(
        f'<svg role="img" aria-label="{escape(shown.title)}" viewBox="{box[1]}" '
        f'style="max-width: {width / 72:.3g}in">{body}'
    )


def _number_ids(svg: str, number: int) -> str:
    """Return an SVG without the IDs that nothing refers to; a number precedes all others."""
    used = set[str]()
    for tag in re.findall(r"<[^>]*>", svg):
        used.update(re.findall(r'(?:url\(|href=")#([^")]+)', tag))

    def write_id(attribute: re.Match[str]) -> str:
        return f' id="f{number}-{attribute[1]}"' if attribute[1] in used else ""

    def change(tag: str) -> str:
        tag = re.sub(r' id="([^"]*)"', write_id, tag)
        return re.sub(r'(url\(|href=")#', rf"\1#f{number}-", tag)

    return _change_tags(svg, change)


def _change_tags(svg: str, change: Callable[[str], str]) -> str:
    """Return an SVG with its tags changed; texts, which may be names of classes, stay."""
    return re.sub(r"<[^>]*>", lambda tag: change(tag[0]), svg)


def _adopt_colours(svg: str) -> str:
    """Return an SVG with `COLOURS` replaced."""

    def replace_colour(colour: re.Match[str]) -> str:
        return COLOURS[colour[0].lower()]

    return re.sub("|".join(COLOURS), replace_colour, svg, flags=re.IGNORECASE)
