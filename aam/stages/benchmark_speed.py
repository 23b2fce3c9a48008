"""The speed table: a naive training step against the optimized one."""

from aam.bench.ablation import run_ablation
from aam.bench.subprocess_runner import SubprocessRunner
from aam.bench.tables import about_run
from aam.runtime.entry import Cfg, Files, RunOptions


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Time every variant of a training step on the real data."""
    with SubprocessRunner() as measure:
        ablation = run_ablation(measure, cfg, inputs, runtime)
    ablation.write(outputs, about_run(cfg, inputs, ablation.device, runtime.threads))
