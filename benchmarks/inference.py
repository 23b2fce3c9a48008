"""Time of embedding and memory of validation, against the number of samples.

Run as `python -m benchmarks.inference <folder of results/<dataset>> <result.json>`; with a first
argument `embed` or `score` it is one measurement in a process of its own.

Shape suffixes: N samples, U ASVs, S positions.
"""

import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from torch import nn

from aam.config.sections.model import ModelSettings
from aam.data.samples import SampleStore, write_samples
from aam.data.tokens import TokenStore, write_tokens
from aam.inference.asv_cache import AsvEmbeddings, embed_asvs_cached, encoder_digest
from aam.inference.embed import embedded_blocks, load_encoder
from aam.model.build import architecture, build_encoder, plain
from aam.model.store import save_model
from aam.tasks.pretrain.model import PretrainingModel
from aam.tasks.pretrain.validation import HeldOut
from aam.train.batch_norm import SAMPLES
from aam.train.data.masking import Masker
from aam.train.distributed.devices import Devices
from aam.train.monitoring.memory import peak_mb
from aam.util.atomic import read_json, write_json
from aam.util.seeds import generator

logger = logging.getLogger(__name__)
GROWTH = 0.6
"""ASVs of a larger study: those of the given one times the ratio of the samples to this power; it
is 0.6 to 0.7 between parts of `data/oral`."""
SUBSTITUTIONS = 3
"""Nucleotides of a variant that are drawn anew."""
STEPS = ("start_s", "load_s", "asvs_s", "samples_s")


@dataclass(frozen=True)
class Setup:
    """What is measured, and with what.

    Attributes
    ----------
    tokens, samples
        Files of a study that larger and smaller ones are drawn from.
    model
        A section `models.<name>` as plain types; the weights are random.
    precision, threads
        Arithmetic and cores.
    seed
        Of weights and studies.
    """

    tokens: Path
    samples: Path
    model: Mapping[str, Any]
    precision: str
    threads: int
    seed: int = 0


def embedding_times(
    setup: Setup, numbers: Sequence[int] = (1000, 5000, 20_000), repeats: int = 3
) -> list[dict[str, Any]]:
    """Time from a model directory to a file of embeddings, each in a process of its own.

    Parameters
    ----------
    setup
        See there.
    numbers
        Samples to embed.
    repeats
        Timed runs of each case, with an empty and with a filled cache in turn; one before them
        is not timed and fills the cache.

    Returns
    -------
    list of dict
        Per number and cache: `samples`, `asvs`, `cache` (``empty`` or ``filled``), `wall_s` and
        `wall_s_iqr` (from the start of the process to the written file), `start_s` (imports),
        `load_s` (device, model, files), `asvs_s`, `samples_s` (all medians), `ms_per_sample`,
        `repeats`, `peak_memory_mb`.
    """
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model, length_bp = folder / "model", TokenStore.open(setup.tokens).tokens.shape[1]
        encoder = build_encoder(
            architecture(setup.model, length_bp), seed=setup.seed, backend="auto"
        )
        about = {"architecture": plain(encoder.shape)}
        save_model(model, nn.ModuleDict({"encoder": encoder}), about)
        for number in numbers:
            asvs = write_study(setup, number, folder)
            cache = folder / "asvs.safetensors"
            spec = {"model": str(model), "folder": str(folder), **_arithmetic(setup)}
            run_apart("embed", {**spec, "cache": None, "fill": str(cache)})
            results: dict[str, list[dict[str, Any]]] = {"empty": [], "filled": []}
            for _ in range(repeats):
                for state, found in results.items():
                    path = str(cache) if state == "filled" else None
                    found.append(run_apart("embed", {**spec, "cache": path, "fill": None}))
            for state, found in results.items():
                rows.append({"samples": number, "asvs": asvs, "cache": state, **_medians(found)})
                rows[-1]["ms_per_sample"] = 1e3 * rows[-1]["wall_s"] / number
                logger.info("%d samples, cache %s: %.3g s", number, state, rows[-1]["wall_s"])
    return rows


def validation_memory(
    setup: Setup, numbers: Sequence[int] = (500, 2000, 20_000)
) -> list[dict[str, Any]]:
    """Measure the anonymous memory of one validation, each in a process of its own.

    The distances are a mapped file, left empty: all are zero.

    Parameters
    ----------
    setup
        See there.
    numbers
        Held-out samples; as many training samples come beside them as the heads' statistics take.

    Returns
    -------
    list of dict
        Per number: `held_out`, `asvs`, `start_mb` (before the validation), `peak_mb`, `grown_mb`
        (of 2^20 bytes), `wall_s` (of the validation).
    """
    rows = []
    for number in numbers:
        with tempfile.TemporaryDirectory() as name:
            folder, samples = Path(name), number + SAMPLES
            asvs = write_study(setup, samples, folder)
            with (folder / "distances").open("wb") as handle:
                handle.truncate(4 * samples**2)
            spec = {"model": dict(setup.model), "folder": name, "seed": setup.seed}
            found = run_apart("score", {**spec, **_arithmetic(setup)})
        rows.append({"held_out": number, "asvs": asvs, **found})
        logger.info("%d held-out samples: %.0f MB more", number, found["grown_mb"])
    return rows


def write_study(setup: Setup, number: int, folder: Path) -> int:
    """Write tokens and samples of a study of some number of samples; return its number of ASVs."""
    tokens, store = draw_study(
        TokenStore.open(setup.tokens), SampleStore.open(setup.samples), number, setup.seed
    )
    write_tokens(folder / "tokens", tokens.feature_ids, tokens.tokens, tokens.lengths, {})
    write_samples(folder / "samples", store, {})
    return len(tokens.lengths)


def draw_study(
    tokens: TokenStore, store: SampleStore, number: int, seed: int
) -> tuple[TokenStore, SampleStore]:
    """Return a study of some number of samples like those of view 0 of another.

    A smaller study is some of the samples. In a larger one samples are drawn with replacement, and
    each of their ASVs is replaced by one of its variants, which differ in a few nucleotides. There
    are so many variants that the ASVs grow with the power `GROWTH` of the samples.
    """
    rng, given = generator("study", seed, number), len(store.sample_ids)
    is_larger = number > given
    rows_N = rng.integers(given, size=number) if is_larger else rng.permutation(given)[:number]
    richness_N = store.offsets[rows_N + 1] - store.offsets[rows_N]
    offsets = np.concatenate([[0], np.cumsum(richness_N)])
    flat = np.arange(offsets[-1]) + np.repeat(store.offsets[rows_N] - offsets[:-1], richness_N)
    wanted = len(tokens.lengths) * max(1.0, number / given) ** GROWTH
    variants_U = rng.permutation(np.diff(np.linspace(0, wanted, len(tokens.lengths) + 1).round()))
    family_U = np.repeat(np.arange(len(variants_U)), variants_U.astype(np.int64))
    starts = np.searchsorted(family_U, np.arange(len(variants_U) + 1))
    first, size = starts[store.asvs[flat]], np.diff(starts)[store.asvs[flat]]
    kept, asvs = np.unique(first + rng.integers(0, size), return_inverse=True)
    is_variant = np.isin(kept, starts, invert=True)
    length_U = tokens.lengths[family_U[kept]]
    letters_US = _varied(tokens.tokens[family_U[kept]], length_U, is_variant, rng)
    own = np.arange(number + 1)
    return TokenStore([f"asv{i}" for i in range(len(kept))], length_U, letters_US), SampleStore(
        sample_ids=[f"sample{i}" for i in range(number)],
        views=1,
        row_view=np.zeros(number, np.int32),
        offsets=offsets,
        asvs=asvs.astype(np.int32),
        counts=store.counts[flat],
        parent_offsets=own,
        parents=own[:-1].astype(np.int32),
        weights=np.ones(number, np.float32),
    )


def _varied(
    letters_US: NDArray[np.uint8],
    length_U: NDArray[np.int32],
    is_variant: NDArray[np.bool_],
    rng: np.random.Generator,
) -> NDArray[np.uint8]:
    """Return the sequences with some nucleotides of the variants drawn anew."""
    rows = np.flatnonzero(is_variant)
    for _ in range(SUBSTITUTIONS):
        letters_US[rows, rng.integers(0, length_U[rows])] = rng.integers(1, 5, len(rows))
    return letters_US


def run_apart(what: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Measure `what` in a new process and return its result."""
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder, "specification.json"), Path(folder, "result.json")
        asked.write_text(json.dumps({**spec, "started_s": time.time()}), encoding="utf-8")
        command = [sys.executable, "-m", __spec__.name, what, str(asked), str(answered)]
        subprocess.run(command, check=True)
        return {**read_json(answered)}


def embed(spec: Mapping[str, Any]) -> dict[str, float]:
    """Embed all samples of a folder into a file there; return the seconds of each step."""
    instants = [spec["started_s"], time.time()]
    devices = Devices(spec["precision"], spec["threads"])
    encoder, folder = load_encoder(Path(spec["model"])), Path(spec["folder"])
    tokens, store = TokenStore.open(folder / "tokens"), SampleStore.open(folder / "samples")
    instants.append(time.time())
    cache = None if spec["cache"] is None else Path(spec["cache"])
    asv_UD = embed_asvs_cached(encoder, tokens, devices, cache)
    instants.append(time.time())
    rows_N = np.arange(len(store.sample_ids))
    with (folder / "embeddings").open("wb") as handle:
        for _, block_WD in embedded_blocks(encoder, store, tokens, rows_N, devices, asv_UD):
            handle.write(block_WD.numpy().data)
    instants.append(time.time())
    if spec["fill"] is not None:
        digest = encoder_digest(encoder, devices.precision)
        AsvEmbeddings.write(Path(spec["fill"]), tokens, asv_UD, digest)
    seconds = np.diff(instants).tolist()
    return {
        **dict(zip(STEPS, seconds, strict=True)),
        "wall_s": sum(seconds),
        "peak_memory_mb": peak_mb(devices.device),
    }


def score(spec: Mapping[str, Any]) -> dict[str, float]:
    """Validate an untrained model on the samples of a folder; return memory and seconds."""
    devices, folder = Devices(spec["precision"], spec["threads"]), Path(spec["folder"])
    tokens, store = TokenStore.open(folder / "tokens"), SampleStore.open(folder / "samples")
    shape = architecture(spec["model"], tokens.tokens.shape[1])
    model = PretrainingModel(
        build_encoder(shape, seed=spec["seed"], backend="auto"),
        weights={"unweighted": 1.0},
        variances={"unweighted": 1.0},
        nucleotide_weight=1.0,
        seed=spec["seed"],
    )
    number = len(store.sample_ids)
    distances = np.memmap(folder / "distances", np.float32, "r", shape=(1, number, number))
    held_out = HeldOut(
        store=store,
        tokens=tokens,
        samples=np.arange(SAMPLES, number),
        training_samples=np.arange(SAMPLES),
        distances={"unweighted": distances},
        values={},
        masker=Masker(0.15, spec["seed"]),
    )
    t0 = time.time()
    with AnonymousMemory() as memory:
        held_out.score(model, devices)
    return {
        "start_mb": memory.start_mb,
        "peak_mb": memory.peak_mb,
        "grown_mb": memory.peak_mb - memory.start_mb,
        "wall_s": time.time() - t0,
    }


class AnonymousMemory:
    """Peak of this process's resident memory that no file stands behind, sampled by a thread.

    Attributes
    ----------
    start_mb, peak_mb
        In MB of 2^20 bytes, at the start and at most.
    """

    def __init__(self, every_s: float = 0.005) -> None:
        self.start_mb = self.peak_mb = 0.0
        self._every_s, self._done = every_s, Event()
        self._thread = Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self.start_mb = self.peak_mb = anonymous_mb()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(self._every_s):
            self.peak_mb = max(self.peak_mb, anonymous_mb())


def anonymous_mb() -> float:
    """Return the anonymous resident memory of this process in MB of 2^20 bytes (Linux)."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 2**10
    raise OSError("/proc/self/status has no RssAnon")


def _arithmetic(setup: Setup) -> dict[str, Any]:
    return {"precision": setup.precision, "threads": setup.threads}


def _medians(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = ("wall_s", *STEPS)
    medians = {name: float(np.median([run[name] for run in found])) for name in names}
    low, high = np.percentile([run["wall_s"] for run in found], [25, 75])
    return {
        **medians,
        "wall_s_iqr": float(high - low),
        "repeats": len(found),
        "peak_memory_mb": max(run["peak_memory_mb"] for run in found),
    }


def main(arguments: Sequence[str]) -> None:
    """Measure one case, or everything for the data set of a folder."""
    measurements: dict[str, Callable[[Mapping[str, Any]], dict[str, float]]]
    measurements = {"embed": embed, "score": score}
    if arguments[0] in measurements:
        what, asked, answered = arguments
        write_json(Path(answered), measurements[what](read_json(Path(asked))))
        return
    folder = Path(arguments[0])
    setup = Setup(
        tokens=folder / "tokens" / "asvs.arrow",
        samples=folder / "views" / "samples.arrow",
        model=ModelSettings().architecture,
        precision="bf16",
        threads=len(os.sched_getaffinity(0)),
    )
    logging.basicConfig(level=logging.INFO)
    write_json(
        Path(arguments[1]),
        {"embedding": embedding_times(setup), "validation": validation_memory(setup)},
    )


if __name__ == "__main__":
    main(sys.argv[1:])
