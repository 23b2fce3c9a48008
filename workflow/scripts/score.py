"""Score the methods of a task."""

from stage_job import run_job

from aam.evaluate.scored_task import ScoredTask
from aam.evaluate.task_report import NetworkTraining
from aam.stages.score import score_task
from aam.util.digests import provenance

if __name__ == "__main__":
    with run_job(snakemake) as job:
        training = job.settings.get("training")
        score_task(
            predictions=job.inputs.get("predictions"),
            recipes=job.inputs.get("recipes"),
            nested=job.inputs.get("nested"),
            baselines=job.inputs["baselines"],
            nested_baselines=job.inputs["nested_baselines"],
            folds=job.inputs["folds"],
            metadata=job.inputs["metadata"],
            task=ScoredTask.read(job.settings),
            training=None if training is None else NetworkTraining.model_validate(training),
            scores_out=job.outputs["scores"],
            intervals_out=job.outputs["intervals"],
            provenance=provenance(job.settings, job.inputs),
        )
