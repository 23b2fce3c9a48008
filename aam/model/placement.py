"""Sketches of any ASVs, from the place in a tree of the known ones that are most like them.

What lies above an ASV that no tree holds is best read off the known ASV with the fewest mismatches:
networks that learned it from the same ASVs were further off at any number of mismatches
(docs/experiments.md). The branch to the ASV itself is as long as its mismatches say.

Shape suffixes: U known ASVs, Q ASVs asked for, R new ones among them, H known ones, each once, that
these are nearest to, S positions, L positions that are compared, C bytes, K numbers of a sketch, E
branches above several known ASVs, P branches above known ASVs, ASV after ASV.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor, nn

from aam.model.known_asvs import KnownAsvs, bases_of
from aam.model.sketch import BELOW_ALL, branch_noise, own_noise

Ints = NDArray[np.int64]
PER_MISMATCH = 0.54
"""Length of the branch to an ASV by the fraction of its nucleotides that differ from the nearest.

Half the distance in the tree of two such ASVs, in four studies of the corpus."""
SHORTEST = 1e-6
"""Substitutions per site of a branch that has none."""
NUMBERS_AT_ONCE, ASVS_AT_ONCE = 128, 1024
# Gloo broadcasts whole numbers of 8, 32 and 64 bits only.
PARTS = {
    "bases_UC": torch.uint8,
    "bp_U": torch.int32,
    "depth_U": torch.int32,
    "shared_U": torch.int32,
    "own_U": torch.float32,
    "length_E": torch.float32,
}
"""Buffers: the known ASVs in the order of the tree, packed, and their lengths; how many branches
lie above each, and how many of these above the one before it too; the length of what lies above one
ASV alone, and of the branches above several."""


class Placement(nn.Module):
    """Known ASVs with their tree; the sketch of any ASV follows from its sequence."""

    bases_UC: Tensor
    bp_U: Tensor
    depth_U: Tensor
    shared_U: Tensor
    own_U: Tensor
    length_E: Tensor
    # What follows from the buffers, made when it is first asked for, and the sketches of training.
    _known: KnownAsvs | None
    _above: list[Ints] | None
    _row: dict[bytes, int]
    _kept_QK: Tensor

    def __init__(self, numbers: int) -> None:
        super().__init__()
        self.numbers = numbers
        for name, dtype in PARTS.items():
            shape = (0, 0) if name == "bases_UC" else (0,)
            self.register_buffer(name, torch.empty(shape, dtype=dtype))
        self._forget()

    def learn(self, known: KnownAsvs, above_UE: csr_array, length_E: NDArray[np.float64]) -> None:
        """Take in ASVs and the branches above them, each of which stands behind those below it.

        In `above_UE` is 1 where a branch lies above an ASV.
        """
        is_own_E = np.bincount(above_UE.indices, minlength=len(length_E)) == 1
        # From the root on, in the order of the tree: what lies below a branch stands together.
        rows = np.split(above_UE.indices.astype(np.int64), above_UE.indptr[1:-1])
        paths = [np.sort(row[~is_own_E[row]])[::-1] for row in rows]
        order = sorted(range(len(paths)), key=lambda row: paths[row].astype(">i8").tobytes())
        shared_U, new_E = _differences([paths[row] for row in order])
        bases_UC, bp_U = KnownAsvs(known.bases_US[order]).packed()
        depth_U = np.array([len(paths[row]) for row in order])
        own_U = above_UE @ (length_E * is_own_E)
        found = bases_UC, bp_U, depth_U, shared_U, own_U[order], length_E[new_E]
        for (name, dtype), value in zip(PARTS.items(), found, strict=True):
            setattr(self, name, torch.from_numpy(value).to(dtype))
        self._forget()

    @torch.no_grad()
    def forward(self, tokens_QS: Tensor) -> Tensor:
        """Return the sketches [Q, K] of some ASVs, in fp32.

        In training they are kept, rounded to fp16: other batches have the same ASVs.
        """
        letters_QL = tokens_QS.cpu().numpy()
        if not self.training:
            return self._sketches(letters_QL).to(tokens_QS.device)
        keys = [row.tobytes() for row in letters_QL]
        new = {key: at for at, key in enumerate(keys) if key not in self._row}
        if new:
            self._keep(list(new), self._sketches(letters_QL[list(new.values())]))
        rows = torch.tensor([self._row[key] for key in keys], dtype=torch.long)
        return self._kept_QK[rows].float().to(tokens_QS.device)

    def _keep(self, new: list[bytes], sketch_QK: Tensor) -> None:
        first, last = len(self._row), len(self._row) + len(new)
        if last > len(self._kept_QK):
            larger_QK = self._kept_QK.new_empty(2 * last, self.numbers)
            larger_QK[:first] = self._kept_QK[:first]
            self._kept_QK = larger_QK
        self._kept_QK[first:last] = sketch_QK
        self._row.update(zip(new, range(first, last), strict=True))

    def _sketches(self, letters_QS: NDArray[np.uint8]) -> Tensor:
        starts = range(0, len(letters_QS), ASVS_AT_ONCE)
        parts = [self._some(letters_QS[first : first + ASVS_AT_ONCE]) for first in starts]
        return torch.cat([torch.empty(0, self.numbers), *parts])

    def _some(self, letters_QS: NDArray[np.uint8]) -> Tensor:
        known = self._known_asvs()
        letters_QL = letters_QS[:, : known.bases_US.shape[1]]
        near_Q, mismatches_Q, compared_Q = known.nearest(bases_of(letters_QL))
        known_H, place_Q = np.unique(near_Q, return_inverse=True)
        sketch_QK = self._of_known(known_H)[torch.from_numpy(place_Q)]
        is_new = torch.from_numpy(mismatches_Q > 0)
        length_Q = PER_MISMATCH * torch.from_numpy(mismatches_Q / np.maximum(compared_Q, 1)).float()
        own_RK = own_noise(torch.from_numpy(letters_QL)[is_new], self.numbers)
        own_RK += length_Q[is_new].log()[:, None]
        sketch_QK[is_new] = torch.maximum(sketch_QK[is_new], own_RK)
        sketch_QK[torch.from_numpy(compared_Q == 0)] = BELOW_ALL
        return sketch_QK

    def _of_known(self, known_H: Ints) -> Tensor:
        """Return the sketches [H, K] of some known ASVs."""
        paths = self._paths()
        # A first branch that is never the longest stands for what lies above nothing else.
        path_P = np.concatenate([np.append(paths[row], -1) for row in known_H])
        starts_H = np.cumsum([0, *(len(paths[row]) + 1 for row in known_H[:-1])])
        branches, place_P = np.unique(path_P, return_inverse=True)
        branch_E = torch.from_numpy(branches)
        is_real_E = branch_E >= 0
        value_EK = branch_noise(branch_E.int(), self.numbers)
        value_EK[is_real_E] += _log(self.length_E, branch_E[is_real_E])
        value_EK[~is_real_E] = BELOW_ALL
        inner_HK = [
            torch.from_numpy(np.maximum.reduceat(part_EK.numpy()[place_P], starts_H))
            for part_EK in value_EK.split(NUMBERS_AT_ONCE, dim=1)
        ]
        row_H = torch.from_numpy(known_H)
        tokens_HL = torch.from_numpy((self._known_asvs().bases_US[known_H] + 1) % 5)
        own_HK = own_noise(tokens_HL, self.numbers) + _log(self.own_U, row_H)
        return torch.maximum(torch.cat(inner_HK, dim=1), own_HK)

    def _known_asvs(self) -> KnownAsvs:
        if self._known is None:
            self._known = KnownAsvs.unpacked(self.bases_UC.cpu().numpy(), self.bp_U.cpu().numpy())
        return self._known

    def _paths(self) -> list[Ints]:
        """Return the branches above each known ASV, from the root on."""
        if self._above is None:
            self._above, path, done = [], np.empty(0, np.int64), 0
            for shared, depth in zip(self.shared_U.tolist(), self.depth_U.tolist(), strict=True):
                path = np.concatenate([path[:shared], np.arange(done, done + depth - shared)])
                done += depth - shared
                self._above.append(path)
        return self._above

    def _forget(self) -> None:
        self._known, self._above, self._row = None, None, {}
        self._kept_QK = torch.empty(0, self.numbers, dtype=torch.float16)

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *others: Any) -> None:
        """Take in the ASVs of a saved encoder, however many."""
        for name, dtype in PARTS.items():
            if prefix + name in state:
                setattr(self, name, state[prefix + name].to(getattr(self, name).device, dtype))
        self._forget()
        super()._load_from_state_dict(state, prefix, *others)


def _log(length_N: Tensor, row_H: Tensor) -> Tensor:
    """Return the logarithms [H, 1] of some lengths."""
    return length_N.cpu().clamp(min=SHORTEST).log()[row_H, None]


def _differences(paths: list[Ints]) -> tuple[Ints, Ints]:
    """Return how much of each path the one before has, and the other branches, path after path."""
    shared, new, before = [], [np.empty(0, np.int64)], np.empty(0, np.int64)
    for path in paths:
        both = min(len(path), len(before))
        other = np.flatnonzero(path[:both] != before[:both])
        shared.append(int(other[0]) if len(other) else both)
        new.append(path[shared[-1] :])
        before = path
    return np.array(shared, np.int64), np.concatenate(new)
