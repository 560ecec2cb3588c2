"""torch.nn.Transformer, for speed.py."""

import math

import torch
from peers.torch_peer import positions, shifted, transformer
from peers.torch_steps import trainer
from torch import nn


def prepare(work, option=''):
    """As `speed_ours.prepare`."""
    del option
    config = work.model
    module = transformer(config, config.dropout_rate)
    embedding = nn.Parameter(torch.randn(work.vocab_size, config.d_model) * config.d_model**-0.5)
    dropout = nn.Dropout(config.dropout_rate)
    table = torch.tensor(positions(work.length, config.d_model))

    def embed(tokens):
        return dropout(embedding[tokens] * math.sqrt(config.d_model) + table)

    causal = nn.Transformer.generate_square_subsequent_mask(work.length)

    def loss(source, target):
        padding = source == 0
        out = module(
            embed(source),
            embed(shifted(target)),
            tgt_mask=causal,
            tgt_is_causal=True,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        return nn.functional.cross_entropy(
            (out @ embedding.T).flatten(0, 1),
            target.flatten(),
            ignore_index=0,
            label_smoothing=0.1,
        )

    return f'torch {torch.__version__}', trainer(work, loss, [*module.parameters(), embedding])
