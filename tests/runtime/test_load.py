"""What emitted code finds among its globals."""

import torch

from lowtide.runtime.load import _copy_if_misaligned


def test_a_misaligned_tensor_is_copied_to_an_aligned_address():
    base = torch.arange(64, dtype=torch.float32)
    for odd in (base[1:], base[1:].view(9, 7).t(), base[3:4].expand(5, 1)):
        copy = _copy_if_misaligned(odd)
        assert copy.data_ptr() % 16 == 0
        assert (copy.shape, copy.stride()) == (odd.shape, odd.stride())
        assert torch.equal(copy, odd)


def test_an_aligned_tensor_stays_itself():
    aligned = torch.ones(8)
    assert _copy_if_misaligned(aligned) is aligned
    assert _copy_if_misaligned(empty := torch.ones(9)[1:1]) is empty
