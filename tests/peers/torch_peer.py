"""torch.nn.Transformer with our weights."""

import math

import numpy as np
import torch
from peers.cases import LABEL_SMOOTHING, SOURCE, TARGET, VOCAB_SIZE, weights
from torch import nn


def transformer(config, dropout):
    """The module of our config's sizes."""
    return nn.Transformer(
        d_model=config.d_model,
        nhead=config.num_heads,
        num_encoder_layers=config.num_layers,
        num_decoder_layers=config.num_layers,
        dim_feedforward=config.d_ff,
        dropout=dropout,
        activation=config.activation,
        layer_norm_eps=config.norm_epsilon,
        batch_first=True,
        norm_first=config.norm == 'pre',
    )


def results(config):
    """As `our_results`."""
    module = transformer(config, dropout=0.0)
    if config.norm == 'post':  # it would normalise a second time at the end
        module.encoder.norm = module.decoder.norm = None
    embedding = nn.Parameter(torch.zeros(VOCAB_SIZE, config.d_model))
    places = list(_places(module, config, embedding))
    load_weights(places, weights(config))
    source, target = (torch.tensor(x, dtype=torch.long) for x in (SOURCE, TARGET))

    def embed(tokens):
        x = embedding[tokens] * math.sqrt(config.d_model)
        return x + torch.tensor(positions(tokens.shape[1], config.d_model))

    length = target.shape[1]
    out = module(
        embed(source),
        embed(shifted(target)),
        tgt_mask=torch.triu(torch.ones(length, length, dtype=torch.bool), 1),
        src_key_padding_mask=source == 0,
        memory_key_padding_mask=source == 0,
    )
    logits = out @ embedding.T
    return loss_and_gradient(logits, target, places)


def loss_and_gradient(logits, target, places):
    """Return what `our_results` returns, from torch's logits."""
    loss = nn.functional.cross_entropy(
        logits.reshape(-1, VOCAB_SIZE),
        target.reshape(-1),
        ignore_index=0,
        label_smoothing=LABEL_SMOOTHING,
    )
    loss.backward()
    gradient = {}
    for path, tensor, _, torch_to_ours in places:
        node = gradient
        for name in path[:-1]:
            node = node.setdefault(name, {})
        node[path[-1]] = torch_to_ours(tensor.grad.numpy())
    return {'logits': logits.detach().numpy(), 'loss': loss.item(), 'gradient': gradient}


def shifted(target):
    """[B, T] ids to what the decoder is given: 0, then all but the last."""
    return torch.cat([torch.zeros_like(target[:, :1]), target[:, :-1]], dim=1)


def positions(length, size):
    """Section 3.5, element by element."""
    table = np.zeros((length, size), np.float32)
    for pos in range(length):
        for i in range(size // 2):
            angle = pos / 10000 ** (2 * i / size)
            table[pos, 2 * i], table[pos, 2 * i + 1] = math.sin(angle), math.cos(angle)
    return table


# A place is a parameter: our path, torch's tensor, ours to torch's, and torch's to ours.


def load_weights(places, params):
    """Sets torch's tensors."""
    with torch.no_grad():
        for path, tensor, ours_to_torch, _ in places:
            values = params
            for name in path:
                values = values[name]
            tensor.copy_(torch.tensor(ours_to_torch(values)))


def same(x):
    """For what lies alike in both."""
    return x


def linear_places(path, tensors):
    """Those of a dense layer."""
    yield (*path, 'kernel'), tensors.weight, np.transpose, np.transpose
    yield (*path, 'bias'), tensors.bias, same, same


def norm_places(path, tensors):
    """Those of a layer norm."""
    yield (*path, 'scale'), tensors.weight, same, same
    yield (*path, 'bias'), tensors.bias, same, same


def attention_places(path, kernels, biases, output, config):
    """Those of an attention; `kernels` and `biases` of queries, keys and values."""
    width, heads = config.d_model, (config.num_heads, config.key_size)
    for name, kernel, bias in zip(('query', 'key', 'value'), kernels, biases, strict=True):
        yield (
            (*path, name),
            kernel,
            lambda x: x.reshape(width, width).T,
            lambda x: x.T.reshape(width, *heads),
        )
        yield (*path, f'{name}_bias'), bias, np.ravel, lambda x: x.reshape(heads)
    yield (
        (*path, 'output'),
        output.weight,
        lambda x: x.reshape(width, width).T,
        lambda x: x.T.reshape(*heads, width),
    )
    yield (*path, 'output_bias'), output.bias, same, same


class _Third:
    """A third of the tensor in which torch keeps the projections of queries, keys and values."""

    def __init__(self, tensor, index):
        self._tensor = tensor
        self._part = slice(*(k * len(tensor) // 3 for k in (index, index + 1)))

    def copy_(self, values):
        self._tensor[self._part] = values

    @property
    def grad(self):
        return self._tensor.grad[self._part]


def _places(module, config, embedding):
    yield ('embedding',), embedding, same, same
    for side, stack in (('encoder', module.encoder), ('decoder', module.decoder)):
        if config.norm == 'pre':
            yield from norm_places((side, 'norm'), stack.norm)
        for index, layer in enumerate(stack.layers):
            path = (side, f'layer_{index}')
            blocks = [('self_attention', layer.self_attn)]
            if side == 'decoder':
                blocks.append(('cross_attention', layer.multihead_attn))
            for k, (name, tensors) in enumerate(blocks, 1):
                kernels, biases = (
                    [_Third(tensor, i) for i in range(3)]
                    for tensor in (tensors.in_proj_weight, tensors.in_proj_bias)
                )
                yield from attention_places(
                    (*path, name), kernels, biases, tensors.out_proj, config
                )
                norm = getattr(layer, f'norm{k}')
                yield from norm_places((*path, f'{name}_residual', 'norm'), norm)
            norm = getattr(layer, f'norm{len(blocks) + 1}')
            yield from norm_places((*path, 'feed_forward_residual', 'norm'), norm)
            yield from linear_places((*path, 'feed_forward', 'inner'), layer.linear1)
            yield from linear_places((*path, 'feed_forward', 'outer'), layer.linear2)
