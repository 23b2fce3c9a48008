"""Policies for what is not finite, on runs whose inputs are broken on purpose."""

from dataclasses import replace

import pytest
import safetensors.torch
import torch
from torch.nn.attention import SDPBackend

from aam.batches.dataset import BatchDataset
from aam.config.sections.execution import Optimization
from aam.distributed.devices import Devices, _Autocast, hardware_name
from aam.model.heads import pairwise_error
from aam.train import loop, nonfinite, options
from aam.train.checkpoint import Checkpoints
from aam.train.nonfinite import NonFiniteGuard
from aam.train.options import LEVELS, step_options
from aam.util.errors import InputError

STEPS = 10
NAN, INF = float("nan"), float("inf")


@pytest.fixture
def broken(feed_with):
    """Return the function that breaks a distance of some steps' batches, the first `times`."""

    def build(steps, value=NAN, *, times=INF) -> BatchDataset:
        left = dict.fromkeys(steps, times)

        def damage(step, batch):
            left[step] = left.get(step, 0) - 1
            if left[step] >= 0:
                batch.distances["unweighted"][0, 1:] = value

        return feed_with(after=damage)

    return build


@pytest.fixture(params=["at once", "noted"])
def looks(request, monkeypatch) -> None:
    """Let a CPU be asked at each step, or note what it finds as an accelerator does."""
    if request.param == "noted":
        made = NonFiniteGuard.__init__

        def noting(self, *args):
            made(self, *args)
            self._at_once = self.policy == "skip"

        monkeypatch.setattr(NonFiniteGuard, "__init__", noting)


@pytest.mark.parametrize(("value", "log_points"), [(NAN, 200), (INF, 1)])
def test_a_bad_batch_ends_the_run_with_its_step_its_samples_and_the_bad_one(
    train, broken, tmp_path, monkeypatch, looks, value, log_points
):
    monkeypatch.setattr("aam.train.loop.LOG_POINTS", log_points)
    dataset = broken({6}, value)
    names = dataset.store.sample_ids
    first, *others = (names[row % len(names)] for row in dataset.rows(6)[0])
    with pytest.raises(InputError) as raised:
        train(tmp_path, dataset)
    message = str(raised.value)
    assert message.startswith("training step 7: got unweighted_loss, loss")
    assert all(sample in message for sample in others)
    assert f"the distances 'unweighted' of sample '{first}' are not finite" in message
    state = Checkpoints(tmp_path, "a").load()
    assert state["step"] == 6, "nothing that came after the fault is kept"
    assert all(torch.isfinite(value).all() for value in state["model"].values())


def test_an_exploding_learning_rate_ends_the_run(train, looks):
    with pytest.raises(InputError, match="lower learning_rate"):
        train(learning_rate=1e25, clipping="value", gradient_clip=1e9)


def test_a_skipped_update_leaves_weights_and_moments_as_they_were(
    train, broken, caplog, monkeypatch
):
    """The run is that of a reference in which the step's update is not called at all."""
    bad = {2, 5, 6}
    dataset = broken(bad)
    weights, progress = train(None, dataset, nonfinite="skip")
    counted = [r["value"] for r in progress.history if r["name"] == "skipped_steps"]
    assert counted == [1, 1, 1, 2, 3, 3, 3, 3]
    losses = [r for r in progress.history if (r["split"], r["name"]) == ("train", "loss")]
    assert [r["step"] for r in losses] == [1, 2, 4, 5, 8, 9, 10]
    assert caplog.text.count("the update is left out") == 1
    assert "in a batch of 4 samples (" in caplog.text
    real = loop.train_step

    def without_update(*args, step, **more):
        if step in bad:
            return {"loss": torch.tensor(0.0)}, torch.tensor(0.0)
        return real(*args, step=step, **more)

    monkeypatch.setattr(loop, "train_step", without_update)
    assert weights == train()[0]


def test_too_many_skips_in_a_row_end_the_run_also_over_interruptions(train, broken, tmp_path):
    dataset = broken({1, 3, 4, 6, 7, 8})
    with pytest.raises(InputError, match=r"training step 9: .* after 5 steps left out"):
        train(tmp_path, dataset, nonfinite="skip", nonfinite_limit=2)
    resumed, progress = train(tmp_path, dataset, nonfinite="skip", nonfinite_limit=3)
    assert progress.step == STEPS
    assert progress.facts["stability"]["skipped_steps"] == 6
    assert resumed == train(None, dataset, nonfinite="skip")[0]


@pytest.mark.parametrize("bad", [6, 0])
def test_a_restored_run_goes_back_and_on_with_half_the_rate(
    train, broken, tmp_path, caplog, looks, bad
):
    weights, progress = train(tmp_path, broken({bad}, times=1), nonfinite="restore")
    rates = [
        [(r["step"], r["value"]) for r in run.history if r["name"] == "learning_rate"]
        for run in (train()[1], progress)
    ]
    assert rates[1] == [
        (step, value if step <= bad else pytest.approx(value / 2)) for step, value in rates[0]
    ]
    assert len(rates[0]) == progress.step == STEPS
    assert caplog.text.count(f"going back to step {bad}") == 1
    assert progress.facts["stability"]["restores"] == 1
    assert all(torch.isfinite(value).all() for value in safetensors.torch.load(weights).values())


def test_the_best_weights_are_never_those_of_steps_that_were_undone(
    train, broken, tmp_path, new_validation, looks
):
    """A fault after the best validation goes back to that, however rare checkpoints are."""
    scores = [0.1, 0.9, *[0.3] * 2 * STEPS]
    more = {"runtime": {"checkpoint_every_s": 1e9}, "nonfinite": "restore"}
    best = train(tmp_path / "a", validation=new_validation(scores, patience=99), **more)[0]
    faulty = broken({STEPS // 2}, times=1)
    weights = train(tmp_path / "b", faulty, validation=new_validation(scores, patience=99), **more)[
        0
    ]
    assert weights == best


def test_what_cannot_be_restored_ends_the_run(train, broken, tmp_path, looks):
    with pytest.raises(InputError, match="after 0 steps left out and 3 returns"):
        train(tmp_path, broken({4}), nonfinite="restore", nonfinite_limit=3)
    with pytest.raises(InputError, match="no checkpoint to go back to"):
        train(None, broken({4}), nonfinite="restore")


def test_a_step_waits_for_no_accelerator_unless_it_has_to(new_feed, devices, monkeypatch):
    """What would be read of a device is counted; the noting guard reads nothing until a look."""
    reads = []
    for name in ("__bool__", "__int__", "__float__", "item", "tolist", "cpu"):
        real = getattr(torch.Tensor, name)
        monkeypatch.setattr(
            torch.Tensor, name, lambda x, *a, _r=real, _n=name: (reads.append(_n), _r(x, *a))[1]
        )
    guard = NonFiniteGuard(step_options(Optimization(nonfinite_limit=1)), new_feed(), devices)
    guard._at_once = False
    for step, loss in enumerate((1.0, NAN, 1.0)):
        assert guard.passes({"loss": torch.tensor(loss)}, torch.tensor(1.0), step)
    assert reads == []
    with pytest.raises(InputError, match="training step 2:"):
        guard.look({})
    assert reads


@pytest.fixture
def fp16(one_thread, monkeypatch):
    """Return the function that gives a CPU with scaled gradients, as accelerators have them."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    def build(scale: float = 2.0**10) -> Devices:
        devices = Devices("bf16", 1)
        devices.precision = "fp16"
        scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=10**6)
        devices._precision = _Autocast("16-mixed", "cpu", scaler)
        devices._fabric._strategy._precision = devices._precision
        devices._first_scaling = devices.scaling()
        return devices

    return build


def test_in_fp16_the_scale_is_reported_and_a_bad_loss_is_no_matter_of_it(train, broken, fp16):
    _, progress = train(devices=fp16(2.0**100))
    report = progress.facts["stability"]
    scales = [r["value"] for r in progress.history if r["name"] == "loss_scale"]
    assert report["overflowed_steps"] > 0
    assert scales[-1] == report["loss_scale"] == 2.0 ** (100 - report["overflowed_steps"])
    assert report["skipped_steps"] == 0
    with pytest.raises(InputError, match="training step 4"):
        train(None, broken({3}), devices=fp16())
    _, progress = train(None, broken({3}), devices=fp16(), nonfinite="skip")
    assert (progress.step, progress.facts["stability"]["skipped_steps"]) == (STEPS, 1)


def test_a_gradient_that_overflows_at_any_scale_ends_the_run(train, fp16, monkeypatch):
    monkeypatch.setattr(nonfinite, "LEAST_SCALE", 2.0**9)
    devices = fp16()
    backward = devices.backward
    monkeypatch.setattr(devices, "backward", lambda loss: backward(loss * INF))
    with pytest.raises(InputError, match="at any scale in fp16"):
        train(devices=devices)


def test_anomaly_mode_names_the_operation_and_the_samples(train, monkeypatch):
    """The loss is finite here; its gradient is not."""

    def rootlike(predicted_BB, true_BB, variance):
        error = pairwise_error(predicted_BB, true_BB, variance)
        return error + (0 * torch.sqrt((predicted_BB * 0).sum()))

    monkeypatch.setattr("aam.tasks.pretrain.model.pairwise_error", rootlike)
    with pytest.raises(InputError, match="step 1: got gradient_norm not finite, in a batch"):
        train()
    with (
        pytest.warns(UserWarning, match="SqrtBackward0"),
        pytest.raises(InputError, match="SqrtBackward0.*in a batch of 4 samples"),
    ):
        train(anomaly=True)
    assert not torch.is_anomaly_enabled()


def test_gradients_of_the_losses_of_pretraining_are_those_of_differences(
    new_feed, new_model, monkeypatch
):
    """In double precision, of the whole model, against numerical derivatives."""
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    model = new_model().double()
    batch = new_feed()[0]
    batch.samples = [replace(block, counts_BA=block.counts_BA.double()) for block in batch.samples]
    batch.distances["unweighted"] = batch.distances["unweighted"].double()
    small = {n: p.detach().clone() for n, p in model.named_parameters() if p.numel() <= 40}
    names = list(small)[:12]
    assert len(names) > 5

    def losses(*values):
        changed = dict(zip(names, values, strict=True))
        losses = torch.func.functional_call(model, changed, (batch,))
        return losses["unweighted_loss"], losses["nucleotide_loss"]

    values = tuple(small[name].requires_grad_() for name in names)
    assert torch.autograd.gradcheck(losses, values, fast_mode=True, atol=1e-6)


def test_what_the_machine_lacks_is_recorded_and_said_once(train, monkeypatch, caplog):
    monkeypatch.setattr("aam.train.compilation._why_not", lambda device: "no compiler")
    _, progress = train(level="ultra")
    expected = {**LEVELS["advanced"], "anomaly": False, "level": "ultra", "precision": "fp32"}
    expected["hardware"] = hardware_name()
    assert progress.facts["optimization"] == {**expected, "lacking": ["compile: default"]}
    assert caplog.text.count("is not available") == 1


def test_a_kernel_of_attention_that_the_machine_lacks_is_recorded_and_said_once(
    train, monkeypatch, caplog
):
    """By one warning, however many models a process trains."""
    monkeypatch.setattr(
        "aam.model.layers.attention._has_kernel", lambda kernel, device: kernel == SDPBackend.MATH
    )
    options._warn_about_attention.cache_clear()
    for _ in range(2):
        _, progress = train(attention="flash")
        assert progress.facts["optimization"]["attention"] == "math"
        assert progress.facts["optimization"]["lacking"] == ["attention: flash"]
    message = "this machine has no flash kernel, training uses math attention"
    assert caplog.text.count(message) == 1
    options._warn_about_attention.cache_clear()


def test_tf32_that_the_machine_lacks_is_recorded_and_said_once(train, monkeypatch, caplog):
    monkeypatch.setattr("aam.distributed.devices.has_tf32", lambda device: False)
    monkeypatch.setattr("aam.train.options.has_tf32", lambda device: False)
    _, progress = train(devices=Devices("tf32", 1), precision="tf32")
    assert progress.facts["optimization"]["precision"] == "fp32"
    assert progress.facts["optimization"]["lacking"] == ["precision: tf32"]
    assert caplog.text.count("this machine has no tf32: training in fp32") == 1
