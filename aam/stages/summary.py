"""What was learned from a dataset, in plain words, with links to every picture and table."""

import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from aam.evaluate.summary import Results, summary_page, terminal_lines
from aam.stages.entry import Files, RunContext
from aam.util.atomic import read_json, write_text
from aam.util.errors import InputError, problem

WHAT = {
    "own": "cross-validated predictions",
    "predictions": "predictions for another table",
    "benchmark": "benchmark",
    "dropped": "left out",
}
"""What the tables of an input hold."""


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunContext) -> None:
    """Write the summary of a dataset.

    Parameters
    ----------
    cfg
        No settings.
    inputs
        Lists: `pretraining` (`metrics.json`) and, where there are any, `finetuning`
        (`metrics.json`), `predictions` (TSV, of other tables), `benchmark` (`speed.tsv`,
        `accuracy.tsv`), `figures` (PNG), `dropped` (TSV).
    outputs
        `summary` (Markdown), in the folder of the dataset's results.
    runtime
        Not used.
    """
    root = outputs["summary"].parent
    finetuning = inputs.get("finetuning", [])
    files = {name: inputs.get(name, []) for name in WHAT}
    files["own"] = [path.with_name("predictions.tsv") for path in finetuning]
    speed = [path for path in files["benchmark"] if path.name == "speed.tsv"]
    results = _results(
        root.name,
        pretraining=inputs["pretraining"],
        finetuning=finetuning,
        speed=speed[0] if speed else None,
        dropped=files["dropped"],
        pictures=[_link(root, path) for path in inputs.get("figures", [])],
        tables=[(what, _link(root, path)) for name, what in WHAT.items() for path in files[name]],
    )
    write_text(outputs["summary"], summary_page(results))


def terminal_summary(results_dir: Path) -> str:
    """Return a few lines on the results in a folder such as `results/demo`.

    Raises
    ------
    InputError
        If no model has been pretrained there.
    """
    pretraining = sorted(results_dir.glob("pretrain/*/metrics.json"))
    if not pretraining:
        raise problem(
            results_dir,
            "no pretrain/<model>/metrics.json below it",
            "the folder of a dataset's results",
            "run the workflow first, with `make demo` for instance",
        )
    speed = results_dir / "benchmark" / "speed.tsv"
    results = _results(
        results_dir.name,
        pretraining=pretraining,
        finetuning=sorted(results_dir.glob("finetune/*/*/metrics.json")),
        speed=speed if speed.is_file() else None,
    )
    lines = terminal_lines(results)
    for label, name in (("read", "summary.md"), ("pictures", "figures")):
        if (results_dir / name).exists():
            lines.append(f"  {label}: {results_dir / name}")
    return "\n".join(lines)


def _results(
    dataset: str,
    *,
    pretraining: Iterable[Path],
    finetuning: Iterable[Path],
    speed: Path | None,
    dropped: Iterable[Path] = (),
    pictures: Sequence[str] = (),
    tables: Sequence[tuple[str, str]] = (),
) -> Results:
    return Results(
        dataset=dataset,
        pretraining={path.parent.name: read_json(path) for path in pretraining},
        tasks=[read_json(path) for path in finetuning],
        speed=None if speed is None else pd.read_csv(speed, sep="\t"),
        dropped=[sentence for path in dropped for sentence in _dropped_sentences(path)],
        pictures=pictures,
        tables=tables,
    )


def _dropped_sentences(path: Path) -> list[str]:
    """Count what a table of dropped things lists: by reason, or by rarefaction depth."""
    table = pd.read_csv(path, sep="\t", dtype=str, keep_default_na=False)
    if "why" in table:
        kinds = Counter(zip(table["what"], table["why"], strict=True))
        return [f"{what}: {count}, {why}" for (what, why), count in sorted(kinds.items())]
    return [
        f"sample: {count}, with fewer than {depth} reads, the rarefaction depth"
        for depth, count in sorted(Counter(table["depth"]).items())
    ]


def _link(root: Path, path: Path) -> str:
    return Path(os.path.relpath(path, root)).as_posix()


if __name__ == "__main__":
    try:
        print(terminal_summary(Path(sys.argv[1])))
    except InputError as error:
        sys.exit(str(error))
