"""Every test compiles afresh: neither dynamo's caches nor AOTAutograd's carry a result from one test to the next.

The cache of compiled C++ kernels stays, as it depends on their text alone.
"""

import pytest
import torch
import torch._functorch.config as functorch_config


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    torch.manual_seed(0)
    with functorch_config.patch(enable_autograd_cache=False):
        yield
    torch._dynamo.reset()
