"""What a function was given stays as it was: dataclasses are frozen, but for those that collect."""

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import aam

MUTABLE = {
    # What is read or counted line by line, sample by sample or step by step.
    "aam.data.importing.classic.Sheet",
    "aam.data.importing.classic._Faults",
    "aam.data.importing.metadata._Sheet",
    "aam.data.importing.taxonomy._TaxonSheet",
    "aam.tasks.finetune.cross_validation._Collected",
    "aam.tasks.pretrain.validation.NucleotideCounts",
    "aam.tasks.pretrain.validation.PairMoments",
    "aam.train.progress.EarlyStopping",
    "aam.train.progress.Progress",
    "aam.train.progress.Saver",
    "aam.train.progress.Sums",
    # What is asked for twice is kept, or adapts to the machine while it runs.
    "aam.evaluate.clade_tests.CladeTests",
    "aam.learners.baselines.kernel_ridge.KernelRidge",
    "aam.train.memory.step_memory.StepMemory",
    "aam.train.precision.PrecisionChoice",
    # Tensors that are moved between devices, and those of a step.
    "aam.distributed.batch_shards.BatchShard",
    "aam.model.batch.AsvBlock",
    "aam.model.batch.Batch",
    "aam.model.batch.Masked",
    "aam.model.batch.Movable",
    "aam.model.batch.SampleBlock",
    "aam.model.encoder.Encoded",
}


def list_dataclasses() -> Iterator[type]:
    """Yield the dataclasses of all modules of the package."""
    for module in pkgutil.walk_packages(aam.__path__, "aam."):
        if not module.name.endswith("__main__"):
            for found in vars(importlib.import_module(module.name)).values():
                is_own = inspect.isclass(found) and found.__module__ == module.name
                if is_own and "__dataclass_fields__" in vars(found):
                    yield found


def test_dataclasses_are_frozen_but_for_those_that_collect():
    found = {}
    for one in list_dataclasses():
        assert dataclasses.is_dataclass(one)
        found[f"{one.__module__}.{one.__qualname__}"] = one.__dataclass_params__.frozen
    assert len(found) > 100
    assert {name for name, is_frozen in found.items() if not is_frozen} == MUTABLE
