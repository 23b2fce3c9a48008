"""Say what the user's files hold, and how long a run takes."""

from stage_job import run_job

from aam.stages.describe import describe_study

if __name__ == "__main__":
    with run_job(snakemake) as job:
        describe_study(
            table=job.inputs["table"],
            sequences=job.inputs.get("sequences"),
            tree=job.inputs.get("tree"),
            metadata=job.inputs.get("metadata"),
            taxonomy=job.inputs.get("taxonomy"),
            dataset=job.settings["dataset"],
            root=job.settings["root"],
            depth=job.settings["depth"],
            drops_long_branches=job.settings["drops_long_branches"],
            max_length_bp=job.settings["max_length_bp"],
            predictions=job.settings["predictions"],
            models=job.settings["models"],
            tasks=job.settings["tasks"],
            text_out=job.outputs["text"],
        )
