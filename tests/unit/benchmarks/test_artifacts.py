import json

from aam.tasks.pretrain.results import GPU_PEAKS
from benchmarks import artifacts

ON_A_GPU = ("gpu_utilisation", "gpu_power_w", *GPU_PEAKS)


def test_reruns_on_a_gpu_may_differ_in_what_its_driver_said_and_in_nothing_else(tmp_path):
    found = []
    for number in range(3):
        results = tmp_path / str(number)
        file = results / "d" / "pretrain" / "base" / "scores.json"
        file.parent.mkdir(parents=True)
        metrics = dict.fromkeys(ON_A_GPU, 10.0 + number)
        file.write_text(json.dumps({**metrics, "unifrac_pearson": 0.5 + number // 2}))
        found.append(artifacts.digests(results))
    first, rerun, other = found
    assert artifacts.differences(first, rerun) == []
    assert artifacts.differences(first, other) == ["not the same: d/pretrain/base/scores.json"]
