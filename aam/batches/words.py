"""Which words of lineages an encoder learns vectors for: those that enough training samples have.

Shape suffixes: S samples, U features of the store, W distinct words.
"""

import logging

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from aam.data.nouns import other_encoder
from aam.data.stores import SampleStore, TokenStore
from aam.model.asv_encoders import FREE, ROWS, LineageEncoder, word_codes
from aam.model.encoder import Encoder

logger = logging.getLogger(__name__)

LEAST_SAMPLES = 3
"""Training samples that a word is in, from which on it has a vector of its own."""


def check_kind(encoder: Encoder, tokens: TokenStore) -> None:
    """Check that an encoder reads what the tokens of a table are.

    Parameters
    ----------
    encoder
        The encoder.
    tokens
        Features of the table.

    Raises
    ------
    InputError
        It reads nucleotides, and the features have none; or the other way around.
    """
    if isinstance(encoder.asv, LineageEncoder) != tokens.are_lineages:
        raise other_encoder(encoder.shape.encoder, reads_lineages=tokens.are_lineages)


def learn_words(
    encoder: Encoder, store: SampleStore, tokens: TokenStore, samples: NDArray[np.int64]
) -> None:
    """Give the words of the training samples vectors of their own, where lineages are encoded.

    Parameters
    ----------
    encoder
        The encoder, which is changed in place. One of nucleotides stays as it is.
    store, tokens
        All samples and their features.
    samples
        Positions of the training samples.
    """
    if not isinstance(encoder.asv, LineageEncoder):
        return
    code_UT = word_codes(torch.from_numpy(np.array(tokens.tokens))).numpy()
    codes_W, word_UT = np.unique(code_UT, return_inverse=True)
    word_UT = word_UT.reshape(code_UT.shape)
    feature_UT = np.broadcast_to(np.arange(len(code_UT))[:, None], code_UT.shape)
    ones = np.ones(code_UT.size, np.int64)
    shape = (len(code_UT), len(codes_W))
    has_UW = csr_array((ones, (feature_UT.ravel(), word_UT.ravel())), shape)
    has_SU = store.view_matrix(0, len(code_UT))[samples] > 0
    samples_W = np.asarray(((has_SU @ has_UW) > 0).sum(axis=0)).ravel()
    # Of words in equally many samples the order of their numbers decides, which no table changes.
    order_W = np.argsort(-samples_W, kind="stable")
    is_learned_W = (samples_W >= LEAST_SAMPLES) & (codes_W != FREE)
    learned = codes_W[order_W[is_learned_W[order_W]]]
    logger.info(
        "%d of %d names of ranks are in %d samples or more, and are learned%s",
        min(len(learned), ROWS),
        int((codes_W != FREE).sum()),
        LEAST_SAMPLES,
        f": the {ROWS} in most samples" if len(learned) > ROWS else "",
    )
    encoder.asv.learn(torch.from_numpy(learned))
