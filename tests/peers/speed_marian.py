"""Hugging Face's MarianMTModel, for speed.py."""

import os

import torch
import transformers
from peers.marian_peer import marian_model
from peers.speed import BEAM_SIZE
from peers.torch_peer import shifted
from peers.torch_steps import trainer
from torch import nn


def prepare(work, option=''):
    """As `speed_ours.prepare`; the option is how many sentences are translated at a time, if not as
    many as we translate, and after a comma the type it computes with: ',bfloat16'."""
    module = marian_model(work.model, work.vocab_size, dropout=0.1, attn_implementation='sdpa')
    versions = f'transformers {transformers.__version__} on torch {torch.__version__}'
    if work.kind == 'decode':
        size, _, dtype = option.partition(',')
        module = module.eval().to(getattr(torch, dtype or 'float32'))
        return f'{versions} ({module.dtype})', _decoder(work, module, int(size or work.together))

    def loss(source, target):
        logits = module(
            input_ids=source, attention_mask=(source != 0).long(), decoder_input_ids=shifted(target)
        ).logits
        return nn.functional.cross_entropy(
            logits.flatten(0, 1), target.flatten(), ignore_index=0, label_smoothing=0.1
        )

    return versions, trainer(work, loss, module.train().parameters())


def _decoder(work, module, size):
    torch.set_num_threads(os.cpu_count())
    batches = [torch.tensor(source, dtype=torch.long) for source in work.batches(size)]

    @torch.no_grad()
    def run():
        tokens = 0
        for source in batches:
            found = module.generate(
                input_ids=source,
                attention_mask=(source != 0).long(),
                num_beams=BEAM_SIZE,
                do_sample=False,
                min_new_tokens=work.length,
                max_new_tokens=work.length,
            )
            tokens += found[:, 1:].numel()
        return tokens

    return run
