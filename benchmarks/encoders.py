"""What the savings in the ASV encoders `bilstm` and `bdh` are worth, on a real batch.

Run as `python -m benchmarks.encoders TOKENS SAMPLES`, files of a study's results.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from aam.bench.batches import ASVS_PER_CHUNK, pad_samples, repeated
from aam.data.samples import SampleStore
from aam.data.tokens import TokenStore
from aam.model.asv_encoders import Architecture, AsvEncoder
from aam.model.batch import Batch
from aam.model.build import build_encoder
from aam.train.data.collate import assemble
from aam.train.distributed.devices import has_fast_bf16
from aam.util.seeds import generator
from benchmarks.reference_encoders import reference_asvs

MODEL = {"width": 128, "heads": 4, "asv_layers": 4, "sample_layers": 1, "patch_bp": 10}
KINDS = ("bilstm", "bdh")
Encode = Callable[[AsvEncoder, Tensor], Tensor]


def compare(batch: Batch, length: int, *, repeats: int, chunks: int) -> list[dict[str, Any]]:
    """Time forward and backward pass of each encoder, with and without its savings.

    The plain form encodes every copy of an ASV and the padding of all samples to the richest one,
    `ASVS_PER_CHUNK` sequences at a time, in fp32 (`benchmarks.reference_encoders`); only some
    chunks are timed. The optimized one encodes each distinct ASV once, in bf16. Times are those of
    the process on one thread, so that other processes matter little; the best of the interleaved
    repeats counts. `arithmetic` is the part of the `speedup` that is left when both encode the same
    sequences. The ASVs of the batch have one length and no masks.
    """
    (distinct,) = batch.asvs
    (copies,) = repeated(pad_samples(batch, 0), copies=True, padding=True).asvs
    rows = []
    for name in KINDS:
        shape = Architecture(**MODEL, ffn_ratio=4, encoder=name, max_length_bp=length)
        encoder = build_encoder(shape, seed=0, backend="auto").asv
        best_plain = best = float("inf")
        for _ in range(repeats):
            best = min(best, _seconds(encoder, _optimized, distinct.tokens_US))
            some = copies.tokens_US[: chunks * ASVS_PER_CHUNK].split(ASVS_PER_CHUNK)
            spent = sum(_seconds(encoder, reference_asvs, chunk) for chunk in some)
            best_plain = min(best_plain, spent / sum(len(chunk) for chunk in some))
        plain_s = best_plain * len(copies.tokens_US)
        rows.append(
            {
                "name": name,
                "plain_ms": 1e3 * plain_s,
                "optimized_ms": 1e3 * best,
                "speedup": plain_s / best,
                "arithmetic": best_plain * len(distinct.tokens_US) / best,
            }
        )
    return rows


def _optimized(encoder: AsvEncoder, tokens_US: Tensor) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=has_fast_bf16()):
        return encoder(tokens_US, None, "auto")[0]


def _seconds(encoder: AsvEncoder, encode: Encode, tokens_US: Tensor) -> float:
    encoder.zero_grad()
    t0 = time.process_time()
    encode(encoder, tokens_US).square().sum().backward()
    return time.process_time() - t0


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what `compare` finds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.encoders", description=__doc__)
    parser.add_argument("tokens", type=Path)
    parser.add_argument("samples", type=Path)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--chunks", type=int, default=2)
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    tokens, store = TokenStore.open(given.tokens), SampleStore.open(given.samples)
    order = generator("order", 0).permutation(len(store.sample_ids))
    batch = assemble(store, tokens, np.sort(order[: given.batch_size]))
    length = tokens.tokens.shape[1]
    for row in compare(batch, length, repeats=given.repeats, chunks=given.chunks):
        figures = ", ".join(f"{key} {row[key]:.3g}" for key in row if key != "name")
        print(f"{row['name']}: {figures}")


if __name__ == "__main__":
    main()
