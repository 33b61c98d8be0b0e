"""Kernels that go row by row, as the laws once were: slow, easy to follow, and the same in all that they find."""
