"""Score the baselines of a task."""

from stage_job import run_job

from aam.evaluate.scored_task import ScoredTask
from aam.stages.first import score_baselines
from aam.util.provenance import provenance

if __name__ == "__main__":
    with run_job(snakemake) as job:
        score_baselines(
            baselines=job.inputs["baselines"],
            nested_baselines=job.inputs["nested_baselines"],
            folds=job.inputs["folds"],
            metadata=job.inputs["metadata"],
            task=ScoredTask.read(job.settings),
            predictions_out=job.outputs["predictions"],
            metrics_out=job.outputs["metrics"],
            intervals_out=job.outputs["intervals"],
            provenance=provenance(job.settings, job.inputs),
        )
