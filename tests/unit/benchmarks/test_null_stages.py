import pandas as pd
import yaml

from aam.config.configuration import load
from benchmarks import null, null_stages


def test_labels_and_tasks_of_every_kind_are_written_for_the_samples_of_a_study(tmp_path):
    study = tmp_path / "study"
    study.mkdir()
    samples = pd.Index([f"s{number}" for number in range(40)], name="sample-id")
    hosts = [f"h{number // 2}" for number in range(40)]
    pd.DataFrame({"host": hosts}, index=samples).to_csv(study / "metadata.tsv", sep="\t")
    null_stages.prepare(study, tmp_path / "null")
    config = yaml.safe_load((tmp_path / "null/config.yaml").read_text())
    assert len(load(config).tasks) == null_stages.DRAWS * len(null.WAYS)
    metadata = pd.read_csv(tmp_path / "null/metadata.tsv", sep="\t", index_col=0)
    assert metadata.index.tolist() == samples.tolist()
    for name, task in config["tasks"].items():
        by_host = metadata.groupby("host")[task["column"]].nunique()
        if "groups" in task["folds"] and task["kind"] == "classification":
            assert (by_host == 1).all(), name
