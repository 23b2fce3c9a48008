"""What was learned from a dataset, in plain words, with links to every picture and table."""

import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from aam.evaluate.summary import Results, summary_page, terminal_lines
from aam.runtime.entry import Files
from aam.runtime.run_options import RunOptions
from aam.util.atomic import read_json, write_text
from aam.util.errors import InputError, problem

WHAT = {
    "accuracy": "accuracy of all models and baselines",
    "own": "cross-validated predictions",
    "intervals": "prediction intervals, or sets of classes",
    "importance": "importance of the ASVs",
    "predictions": "predictions for another table",
    "speed": "speed of training",
    "dropped": "left out",
}
"""What the tables of an input hold."""


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Write the summary of a dataset.

    Parameters
    ----------
    cfg
        No settings.
    inputs
        `pretrain` (list of `metrics.json`) and, where there are any, `finetune` (list of
        `metrics.json`), `speed` and `accuracy` (TSV), `predictions` (list of TSV, for other
        tables), `figures` (list of PNG), `dropped` (list of TSV).
    outputs
        `summary` (Markdown), in the folder of the dataset's results.
    runtime
        Not used.
    """
    root = outputs["summary"].parent
    finetune = inputs.get("finetune", [])
    listed = {name: inputs.get(name, []) for name in ("predictions", "dropped", "figures")}
    listed["own"] = [path.with_name("predictions.tsv") for path in finetune]
    listed["intervals"] = [path.with_name("intervals.tsv") for path in finetune]
    listed["importance"] = [path.with_name("importance.tsv") for path in finetune]
    listed |= {name: [inputs[name]] for name in ("speed", "accuracy") if name in inputs}
    results = _results(
        root.name,
        pretrain=inputs["pretrain"],
        finetune=finetune,
        speed=inputs.get("speed"),
        dropped=listed["dropped"],
        pictures=[_link(root, path) for path in listed["figures"]],
        tables=[
            (what, _link(root, path))
            for name, what in WHAT.items()
            for path in listed.get(name, [])
        ],
    )
    write_text(outputs["summary"], summary_page(results))


def terminal_summary(results_dir: Path) -> str:
    """Return a few lines on the results in a folder such as `results/demo`.

    Raises
    ------
    InputError
        If no model has been pretrained there.
    """
    pretrain = sorted(results_dir.glob("pretrain/*/metrics.json"))
    if not pretrain:
        raise problem(
            results_dir,
            "no pretrain/<model>/metrics.json below it",
            "the folder of a dataset's results",
            "run the workflow first, with `make demo` for instance",
        )
    speed = results_dir / "benchmark" / "speed.tsv"
    results = _results(
        results_dir.name,
        pretrain=pretrain,
        finetune=sorted(results_dir.glob("finetune/*/*/metrics.json")),
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
    pretrain: Iterable[Path],
    finetune: Iterable[Path],
    speed: Path | None,
    dropped: Iterable[Path] = (),
    pictures: Sequence[str] = (),
    tables: Sequence[tuple[str, str]] = (),
) -> Results:
    return Results(
        dataset=dataset,
        pretraining={path.parent.name: read_json(path) for path in pretrain},
        tasks=[read_json(path) for path in finetune],
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
