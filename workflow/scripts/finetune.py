"""Fine-tune and cross-validate the models of a task."""

from stage_job import run_job

from aam.config.settings.finetuning import FinetuneSettings
from aam.stages.finetune import finetune_task
from aam.util.digests import provenance

if __name__ == "__main__":
    with run_job(snakemake, FinetuneSettings) as job:
        finetune_task(
            tokens=job.inputs["tokens"],
            samples=job.inputs["samples"],
            folds=job.inputs["folds"],
            table=job.inputs["table"],
            model=job.inputs.get("model"),
            asvs=job.inputs.get("asvs"),
            settings=job.settings,
            runtime=job.runtime,
            model_out=job.outputs["model"],
            predictions_out=job.outputs["predictions"],
            digests_out=job.outputs["digests"],
            history_out=job.outputs["history"],
            recipes_out=job.outputs["recipes"],
            nested_out=job.outputs["nested"],
            provenance=provenance(job.settings.plain(), job.inputs),
        )
