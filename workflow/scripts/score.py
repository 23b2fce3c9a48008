"""Score one model on one task."""

from stage_job import run_job

from aam.evaluate.scored_task import ScoredTask
from aam.stages.score import score_model
from aam.util.provenance import provenance

if __name__ == "__main__":
    with run_job(snakemake) as job:
        score_model(
            predictions=job.inputs["predictions"],
            recipes=job.inputs["recipes"],
            nested=job.inputs["nested"],
            baselines=job.inputs["baselines"],
            nested_baselines=job.inputs["nested_baselines"],
            folds=job.inputs["folds"],
            metadata=job.inputs["metadata"],
            task=ScoredTask.read(job.settings),
            encoder=job.settings["encoder"],
            start=job.settings["start"],
            labels=job.settings["labels"],
            evaluation=job.settings["evaluation"],
            start_directory=job.settings["start_directory"],
            metrics_out=job.outputs["metrics"],
            intervals_out=job.outputs["intervals"],
            provenance=provenance(job.settings, job.inputs),
        )
