from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.model_selection import KFold
from sklearn.svm import SVC, SVR

from aam.data.target import Target
from aam.model.kernel_head import ABSENT, KernelHead, KernelShape, log_reads
from aam.tasks.finetune import kernel_head_fit
from aam.tasks.finetune.kernel_head_fit import TrainingSamples, fit_support_vectors
from aam.util.errors import InputError

SITES = ("gut", "oral", "skin")


@pytest.fixture
def numbers():
    """Return features of 60 samples, whose numbers are a curve of the first log-reads."""
    draw = np.random.default_rng(0)
    embedding_TD, log_TP = draw.normal(size=(60, 4)), draw.normal(size=(60, 6)) * 2
    log_TP[:, 0] *= 4
    value_T1 = np.sin(log_TP[:, :1] / 3) + 0.1 * embedding_TD[:, :1]
    splits = list(KFold(4).split(value_T1))
    return TrainingSamples(embedding_TD, log_TP, value_T1, splits)


def fitted(samples: TrainingSamples, target: Target) -> KernelHead:
    shape = KernelShape(len(samples.value_TE), samples.log_TP.shape[1], 8)
    head = KernelHead(shape, samples.embedding_TD.shape[1], samples.value_TE.shape[1])
    fit_support_vectors(head, target, samples)
    return head


def said(head: KernelHead, samples: TrainingSamples) -> np.ndarray:
    parts = (torch.from_numpy(part).float() for part in (samples.embedding_TD, samples.log_TP))
    return head(*parts).double().numpy()


def target_of(kind: str) -> Target:
    if kind == "regression":
        return Target.fit(kind, ["age"], [["1"], ["2"]], np.ones(2, bool))
    return Target.fit(kind, ["site"], [[name] for name in SITES], np.ones(3, bool))


def test_a_number_is_that_of_support_vectors_on_the_same_kernel(numbers, monkeypatch):
    monkeypatch.setattr(kernel_head_fit, "WEIGHTS", (0.5,))
    monkeypatch.setattr(kernel_head_fit, "COSTS", (3.0,))
    head = fitted(numbers, target_of("regression"))
    assert bool(head.gaussian), "a curve is no plane"
    own = numbers.embedding_TD - numbers.embedding_TD.mean(axis=0)
    own = own / own.std(axis=0) / np.sqrt(own.shape[1])
    reads = numbers.log_TP - numbers.log_TP.mean(axis=0)
    reads = reads / np.sqrt(reads.var(axis=0).sum())
    features = np.hstack([own, reads]) * np.sqrt(0.5)
    value_T = numbers.value_TE[:, 0]
    scaled_T = (value_T - value_T.mean()) / value_T.std()
    reference = SVR(gamma=0.5, C=3.0, epsilon=0.0).fit(features, scaled_T)
    expected = reference.predict(features) * value_T.std() + value_T.mean()
    np.testing.assert_allclose(said(head, numbers)[:, 0], expected, atol=1e-3)


@pytest.mark.parametrize("missing", [None, 1])
def test_classes_have_a_machine_each_and_scaled_logits(numbers, missing):
    """One that no sample has is never predicted."""
    code = np.digitize(numbers.log_TP[:, 0], [-3.0, 3.0])
    code[code == missing] = 0
    samples = TrainingSamples(numbers.embedding_TD, numbers.log_TP, np.eye(3)[code], numbers.splits)
    head = fitted(samples, target_of("classification"))
    found = said(head, samples)
    assert (found.argmax(axis=1) == code).mean() > 0.8
    assert missing is None or (found[:, missing] < -20).all()
    likeness_TT = head.likeness(
        torch.from_numpy(np.hstack([samples.embedding_TD, samples.log_TP])).float()
    )
    alone = SVC(kernel="precomputed", class_weight="balanced", C=1.0)
    scores = [
        np.corrcoef(
            alone.set_params(C=cost).fit(likeness_TT, code == 0).decision_function(likeness_TT),
            found[:, 0],
        )[0, 1]
        for cost in kernel_head_fit.COSTS
    ]
    assert max(scores) > 1 - 1e-6, "a temperature alone lies between both"


def test_without_parts_to_choose_on_the_first_settings_are_taken(numbers):
    few = TrainingSamples(numbers.embedding_TD, numbers.log_TP, numbers.value_TE, [])
    assert not bool(fitted(few, target_of("regression")).gaussian)


def test_a_class_of_one_part_alone_leaves_the_temperature_of_the_others(numbers):
    code = (numbers.log_TP[:, 0] > 0).astype(int)
    few = code.copy()
    few[numbers.splits[0][1][:3]] = 2
    target, found = target_of("classification"), []
    for one in (code, few):
        samples = replace(numbers, value_TE=np.eye(3)[one])
        logit_TO = said(fitted(samples, target), samples)
        found.append(np.abs(logit_TO[:, 0] - logit_TO[:, 1])[few < 2].mean())
    assert found[1] > 0.5 * found[0], "all would be nearly alike"


def test_classes_of_one_part_each_keep_their_logits(numbers):
    code = np.zeros(60, int)
    code[30:] = 1
    halves = [(np.arange(30, 60), np.arange(30)), (np.arange(30), np.arange(30, 60))]
    samples = replace(numbers, value_TE=np.eye(3)[code], splits=halves)
    assert np.isfinite(said(fitted(samples, target_of("classification")), samples)).all()


def test_a_machine_of_too_many_samples_is_refused(new_task, monkeypatch):
    monkeypatch.setattr(kernel_head_fit, "MOST_SAMPLES", 5)
    with pytest.raises(InputError, match="got kernel with 6 training samples; expected at most 5"):
        new_task(recipe="kernel").run()


def test_columns_are_known_by_sequence_however_it_is_padded():
    head = KernelHead(KernelShape(1, 2, 4), 1, 1)
    head.asv_PS.copy_(torch.tensor([[1, 2, 3, 0], [4, 4, 4, 4]]))
    tokens = np.array([[4, 4, 4, 4, 1], [1, 2, 3, 0, 0], [1, 2, 0, 0, 0]], np.uint8)
    assert head.columns(tokens).tolist() == [1, 0, ABSENT]
    assert head.columns(tokens[:, :3]).tolist() == [ABSENT, 0, ABSENT]
    assert log_reads(torch.tensor([0.0, 3.0])).tolist() == pytest.approx([0.0, np.log(7)])


@pytest.mark.parametrize("is_gaussian", [False, True])
def test_a_part_for_some_asvs_says_what_the_machine_says_of_samples_without_the_others(is_gaussian):
    head = KernelHead(KernelShape(samples=6, asvs=9, length_bp=4), 3, 2)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for name in ("center_F", "scale_F", "sample_TF", "weight_TO", "bias_O"):
            getattr(head, name).normal_()
        embedding_BD, log_BK = torch.randn(5, 3), torch.rand(5, 2)
    head.gaussian.fill_(is_gaussian)
    column_K = torch.tensor([7, 2])
    log_BP = torch.zeros(5, 9).index_copy(1, column_K, log_BK)
    found_BO = head.part(column_K)(embedding_BD, log_BK)
    torch.testing.assert_close(found_BO, head(embedding_BD, log_BP))
    none_BO = head.part(column_K[:0])(embedding_BD, log_BK[:, :0])
    torch.testing.assert_close(none_BO, head(embedding_BD, torch.zeros(5, 9)))
