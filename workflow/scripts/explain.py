"""Find the ASVs that the predictions of a task rest on."""

from stage_job import run_job

from aam.config.settings.tasks import ExplainSettings
from aam.stages.explain import explain_task
from aam.util.digests import provenance

if __name__ == "__main__":
    with run_job(snakemake, ExplainSettings) as job:
        explain_task(
            model=job.inputs["model"],
            folds=job.inputs["folds"],
            tokens=job.inputs["tokens"],
            samples=job.inputs["samples"],
            sequences=job.inputs["sequences"],
            taxonomy=job.inputs.get("taxonomy"),
            asvs=job.inputs.get("asvs"),
            tree=job.inputs.get("tree"),
            clades=job.inputs["clades"],
            clade_features=job.inputs["clade_features"],
            explained=job.settings.samples,
            checked=job.settings.checked,
            removed=job.settings.removed,
            seed=job.settings.seed,
            threads=job.runtime.threads,
            importance_out=job.outputs["importance"],
            sequences_out=job.outputs["sequences"],
            check_out=job.outputs["check"],
            clades_out=job.outputs["clades"],
            provenance=provenance(job.settings.plain(), job.inputs),
        )
