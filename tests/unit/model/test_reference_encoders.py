import pytest
import torch

from tests.reference_encoders import reference_asvs

KINDS = [
    {"encoder": "bilstm", "asv_layers": 3},
    {"encoder": "bdh", "asv_layers": 3},
    {"encoder": "bdh", "heads": 8, "patch_bp": 1},
]


@pytest.mark.parametrize("changes", KINDS)
def test_the_plain_form_gives_the_same_and_the_same_gradients(changes, tiny, new_encoder):
    encoder, results = new_encoder(20, **changes).asv, []
    tokens_US = torch.from_numpy(tiny.tokens.tokens)
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    for encode in (reference_asvs, lambda asv, tokens: asv(tokens, None, "auto")[0]):
        encoder.zero_grad()
        asv_UD = encode(encoder, tokens_US)
        (asv_UD * torch.arange(16)).square().sum().backward()
        results.append([asv_UD.detach(), *(p.grad.clone() for p in encoder.parameters())])
    for plain, optimized in zip(*results, strict=True):
        torch.testing.assert_close(optimized, plain, atol=2e-4 * plain.abs().max(), rtol=1e-3)
