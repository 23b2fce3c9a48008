from unit.conftest import make, new_encoder, one_thread, tiny
from unit.train.conftest import train

__all__ = ["make", "new_encoder", "one_thread", "tiny", "train"]
