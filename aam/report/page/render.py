"""The page itself: one file without references to others, from Jinja templates."""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from aam.report.page.cautions import Caution
from aam.report.page.methods import MethodsText
from aam.report.page.result_tables import Table

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
    model: str
    answer: str
    cautions: Sequence[Caution]
    sentences: Sequence[str] = ()
    figures: Sequence[PageFigure] = ()
    training: Sequence[PageFigure] = ()
    tables: Sequence[Table] = ()
    commands: Sequence[Commands] = ()


@dataclass(frozen=True)
class EncoderSection:
    """What one encoder learned without labels."""

    name: str
    text: str
    figures: Sequence[PageFigure] = ()


@dataclass(frozen=True)
class Results:
    """All that a page tells of a dataset."""

    dataset: str
    tasks: Sequence[TaskSection]
    encoders: Sequence[EncoderSection]
    cautions: Sequence[Caution] = ()
    networks: Sequence[str] = ()
    """What a page without networks says of them: what they add, and how long they take."""
    left_out: Sequence[str] = ()
    data_figures: Sequence[PageFigure] = ()
    methods: MethodsText = MethodsText("", ())
    files: Sequence[str] = ()
    """Links to tables and scores."""
    made_from: Table = EMPTY
    """Of each file of scores the version that wrote it, and the digest of its settings."""


def page(results: Results) -> str:
    """Return the HTML of a page: it needs no network, and says all without its script."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    numbers = itertools.count()
    environment.filters["inline"] = lambda shown: _inline(shown, next(numbers))
    environment.filters["words"] = _mark_up
    environment.filters["anchor"] = _make_anchor
    return environment.get_template("page.html").render(
        results=results,
        css=Markup((FOLDER / "page.css").read_text("utf-8")),
        js=Markup((FOLDER / "page.js").read_text("utf-8")),
    )


def caption(template: str, wildcards: Mapping[str, str], config: Mapping[str, Any]) -> str:
    """Return a caption of Snakemake's report, reStructuredText, as Snakemake fills it in."""
    known = {"wildcards": wildcards, "config": config}
    return jinja2.Template(template).render(snakemake=known)


def _make_anchor(name: str) -> str:
    """Return a name as the anchor of a section."""
    return re.sub(r"[^a-zA-Z0-9]+", "-", name).strip("-")


def _mark_up(text: str) -> Markup:
    """Return a caption's double backticks and asterisks as HTML."""
    marked = re.sub(r"``(.+?)``", r"<code>\1</code>", str(escape(" ".join(text.split()))))
    return Markup(re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", marked))


def _inline(shown: PageFigure, number: int) -> Markup:
    """Return an SVG for a place inside of the page: IDs of its own, colours of the page."""
    body = shown.svg[shown.svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", body, flags=re.S)
    box = re.search(r'viewBox="([^"]+)"', body)
    assert box is not None, "an SVG without a viewBox"
    used = set(re.findall(r'(?:url\(|href=")#([^")]+)', body))
    body = re.sub(
        r' id="([^"]*)"', lambda m: f' id="f{number}-{m[1]}"' if m[1] in used else "", body
    )
    body = re.sub(r'(url\(|href=")#', rf"\1#f{number}-", body)
    pattern = "|".join(COLOURS)
    body = re.sub(pattern, lambda m: COLOURS[m[0].lower()], body, flags=re.IGNORECASE)
    body = re.sub(r">\s+<", "><", body[body.index(">") + 1 :])
    width = float(box[1].split()[2])
    return Markup(
        f'<svg role="img" aria-label="{escape(shown.title)}" viewBox="{box[1]}" '
        f'style="max-width: {width / 72:.3g}in">{body}'
    )
