"""The batch size `auto`: as many samples as the memory holds, decided before the first step."""

import logging
from collections.abc import Collection

from aam.batches.dataset import number_of_batches
from aam.config.sections.training import Pretraining
from aam.config.settings.training import PretrainSettings
from aam.data.stores import SampleStore
from aam.distributed.devices import Devices
from aam.tasks.pretrain.inputs import PretrainInputs, divide_samples
from aam.tasks.pretrain.preparation import prepare
from aam.train.checkpoint import Checkpoints
from aam.train.memory import meter
from aam.train.memory.step_memory import largest_batch_size
from aam.train.options import step_options
from aam.util.run_options import RunOptions

logger = logging.getLogger(__name__)
KEY = "batch_size"
"""Key of what a run has decided."""


def settle_batch_size(
    settings: PretrainSettings,
    inputs: PretrainInputs,
    devices: Devices,
    checkpoints: Checkpoints,
    runtime: RunOptions,
    without: Collection[str] = (),
) -> PretrainSettings:
    """Return settings with a batch size where `auto` is asked for, and its learning rate.

    The run ends with the bytes of one that was given these two numbers. What is decided is kept
    with the checkpoints, so that a run which goes on, also on another machine, takes the same size.

    Parameters
    ----------
    settings
        How a model is trained.
    inputs
        Files that the pretraining reads.
    devices
        Where the model is trained. Several processes all call this, and get the same.
    checkpoints
        Those of the run.
    runtime
        Limits of memory.
    without
        IDs of samples that have no part in the pretraining.

    Returns
    -------
    PretrainSettings
        The settings themselves where they have a size.

    Raises
    ------
    InputError
        See `prepare`, and `Checkpoints.decide`.
    """
    training = settings.pretraining
    if training.batch_size != "auto":
        return settings
    decision = devices.broadcast(checkpoints.decided())
    if decision is None:
        size = _find_size(settings, inputs, devices, runtime, without)
        checkpoints.decide({KEY: size})
    else:
        size = int(decision[KEY])
    settled = training.with_batches_of(size)
    logger.info(
        "batch_size auto: %d samples a step at a learning rate of %.3g (%d at %.3g)%s",
        size,
        settled.learning_rate,
        training.first_batch_size,
        training.learning_rate,
        "" if decision is None else ", as this run was begun",
    )
    return settings.model_copy(update={"pretraining": settled})


def possible_sizes(training: Pretraining, samples: int, *, is_on_cpu: bool) -> list[int]:
    """Return the batch sizes that `auto` may take.

    Parameters
    ----------
    training
        Epochs of the run.
    samples
        Number of training samples.
    is_on_cpu
        Whether there is no accelerator, so that growth ends at `Pretraining.most_on_cpu`.

    Returns
    -------
    list of int
        The size that `auto` grows from, and its doublings, as long as the run passes over the
        samples as often and keeps `Pretraining.least_steps`.
    """
    sizes = [training.first_batch_size]
    passes = training.passes(number_of_batches(samples, sizes[0]))
    most = training.most_on_cpu if is_on_cpu else samples
    while True:
        size = 2 * sizes[-1]
        steps = number_of_batches(samples, size)
        is_as_long = training.passes(steps) == passes and passes * steps >= training.least_steps
        if size > most or not is_as_long:
            return sizes
        sizes.append(size)


def _find_size(
    settings: PretrainSettings,
    inputs: PretrainInputs,
    devices: Devices,
    runtime: RunOptions,
    without: Collection[str],
) -> int:
    """Return the largest size that fits, by real steps of a model that is thrown away."""
    ids = SampleStore.open(inputs.samples).sample_ids
    is_in, is_held_out = divide_samples(settings, inputs.metadata, ids, without)
    training = settings.pretraining
    is_on_cpu = devices.device.type == "cpu"
    sizes = possible_sizes(training, int((is_in & ~is_held_out).sum()), is_on_cpu=is_on_cpu)
    if len(sizes) == 1:
        logger.info(
            "batch_size auto: larger batches would leave the run fewer than %d steps",
            training.least_steps,
        )
        return sizes[0]
    first = settings.model_copy(update={"pretraining": training.with_batches_of(sizes[0])})
    prepared = prepare(
        first,
        inputs,
        without,
        max_memory_gb=runtime.max_memory_gb,
        processes=devices.world.devices,
    )
    size = largest_batch_size(
        devices.setup_model(prepared.model).train(),
        prepared.dataset.for_device(devices.device).whole(),
        sizes,
        devices,
        limit_gb=runtime.max_memory_gb,
        recompute=step_options(settings.optimization).recompute,
        threshold=runtime.memory_threshold,
    )
    # The model is prepared again at that size: a head is scaled by the first batch.
    del prepared
    meter.recover()
    return size
