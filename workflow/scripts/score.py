"""Score the methods of a task."""

from stage_job import run_job

from aam.config.settings.tasks import ScoreSettings
from aam.stages.score import score_task
from aam.util.digests import provenance

if __name__ == "__main__":
    with run_job(snakemake, ScoreSettings) as job:
        score_task(
            predictions=job.inputs.get("predictions"),
            recipes=job.inputs.get("recipes"),
            nested=job.inputs.get("nested"),
            baselines=job.inputs["baselines"],
            nested_baselines=job.inputs["nested_baselines"],
            covariates=job.inputs.get("covariates"),
            nested_covariates=job.inputs.get("nested_covariates"),
            folds=job.inputs["folds"],
            asked=job.inputs.get("asked"),
            asked_folds=job.inputs.get("asked_folds"),
            metadata=job.inputs["metadata"],
            table=job.inputs["table"],
            rarefied=job.inputs["rarefied"],
            settings=job.settings,
            scores_out=job.outputs["scores"],
            predictions_out=job.outputs["predictions"],
            provenance=provenance(job.settings.plain(), job.inputs),
        )
