import pytest
import torch

pytest.register_assert_rewrite("law")
torch.set_num_threads(1)  # the tests run side by side; tensors this small gain nothing from threads
