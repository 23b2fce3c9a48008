"""Put the results of a dataset on a page."""

from stage_job import run_job

from aam.stages.summary import write_summary

if __name__ == "__main__":
    with run_job(snakemake) as job:
        write_summary(
            finetune=job.inputs.get("finetune", []),
            intervals=job.inputs.get("intervals", []),
            importance=job.inputs.get("importance", []),
            pretrain=job.inputs.get("pretrain", []),
            predictions=job.inputs.get("predictions", []),
            accuracy=job.inputs.get("accuracy"),
            dropped=job.inputs["dropped"],
            notes=job.inputs["notes"],
            figures=job.inputs.get("figures", []),
            table=job.inputs["table"],
            sequences=job.inputs.get("sequences"),
            depth=job.settings["depth"],
            views=job.settings["views"],
            drops_long_branches=job.settings["drops_long_branches"],
            metrics=job.settings["metrics"],
            models=job.settings["models"],
            tasks=job.settings["tasks"],
            networks=job.settings.get("networks"),
            captions=job.settings["captions"],
            summary_out=job.outputs["summary"],
            report_out=job.outputs["report"],
        )
