"""Simulate a study, and newcomers to predict."""

from stage_job import run_job

from aam.config.settings.data import SimulateSettings
from aam.stages.simulate import simulate_study
from aam.util.digests import provenance

if __name__ == "__main__":
    with run_job(snakemake, SimulateSettings) as job:
        simulate_study(
            samples=job.settings.samples,
            features=job.settings.features,
            length_bp=job.settings.length_bp,
            hosts=job.settings.hosts,
            newcomers=job.settings.newcomers,
            seed=job.settings.seed,
            table_out=job.outputs["table"],
            tree_out=job.outputs["tree"],
            metadata_out=job.outputs["metadata"],
            new_table_out=job.outputs["new_table"],
            new_metadata_out=job.outputs["new_metadata"],
            provenance=provenance(job.settings.plain(), job.inputs),
        )
