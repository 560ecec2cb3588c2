"""Steps of Adam in torch, for the peers of speed.py that are modules of torch."""

import os

import torch


def trainer(work, loss, parameters):
    """A function that takes Adam's steps on `loss(source, target)` and returns target tokens."""
    torch.set_num_threads(os.cpu_count())
    optimizer = torch.optim.Adam(parameters, lr=1e-4, betas=(0.9, 0.98), eps=1e-9)
    source, target = (torch.tensor(ids, dtype=torch.long) for ids in work.batch().values())

    def run():
        for _ in range(work.repeats):
            optimizer.zero_grad()
            with torch.autocast('cpu', torch.bfloat16, enabled=work.model.dtype == 'bfloat16'):
                mean = loss(source, target)
            mean.backward()
            optimizer.step()
        return work.repeats * target.numel()

    return run
