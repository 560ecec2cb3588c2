"""Hugging Face's MarianMTModel with our weights."""

import torch
from peers.cases import (
    BEAM_SIZE,
    EOS,
    LONGEST,
    SENTENCES,
    SOURCE,
    TARGET,
    VOCAB_SIZE,
    up_to_end,
    weights,
)
from peers.torch_peer import (
    attention_places,
    linear_places,
    load_weights,
    loss_and_gradient,
    norm_places,
    same,
    shifted,
)
from torch import nn
from transformers import MarianConfig, MarianMTModel


def marian_model(config, vocab_size, **options):
    """The model with random weights."""
    return MarianMTModel(
        MarianConfig(
            vocab_size=vocab_size,
            d_model=config.d_model,
            encoder_layers=config.num_layers,
            decoder_layers=config.num_layers,
            encoder_attention_heads=config.num_heads,
            decoder_attention_heads=config.num_heads,
            encoder_ffn_dim=config.d_ff,
            decoder_ffn_dim=config.d_ff,
            activation_function=config.activation,
            scale_embedding=True,
            pad_token_id=0,
            eos_token_id=EOS,
            decoder_start_token_id=0,
            forced_eos_token_id=None,
            **options,
        )
    )


def build(config, params):
    """The model with weights of ours, and which of its tensors is which of ours."""
    module = marian_model(config, VOCAB_SIZE, dropout=0.0, attn_implementation='eager')
    for part in module.modules():
        if isinstance(part, nn.Embedding):
            part.padding_idx = None  # what the decoder starts from is learned, as here
    places = list(_places(module, config))
    load_weights(places, params)
    module.final_logits_bias.copy_(torch.tensor(params['output_bias'])[None])
    return module, places


def results(config):
    """As `our_results`; Marian's output bias is no parameter and has no gradient."""
    module, places = build(config, weights(config))
    source, target = (torch.tensor(x, dtype=torch.long) for x in (SOURCE, TARGET))
    logits = module(
        input_ids=source, attention_mask=(source != 0).long(), decoder_input_ids=shifted(target)
    ).logits
    return loss_and_gradient(logits, target, places)


def translations(config, params):
    """As `our_translations`."""
    module, _ = build(config, params)
    source = torch.tensor(SENTENCES, dtype=torch.long)
    with torch.no_grad():
        found = module.generate(
            input_ids=source,
            attention_mask=(source != 0).long(),
            num_beams=BEAM_SIZE,
            length_penalty=0.0,
            early_stopping='never',
            do_sample=False,
            max_new_tokens=LONGEST,
            bad_words_ids=[[0]],
            forced_eos_token_id=EOS,
        )
    return [up_to_end(row[1:]) for row in found]


def _places(module, config):
    model = module.model
    yield ('embedding',), model.shared.weight, same, same
    for side, stack in (('encoder', model.encoder), ('decoder', model.decoder)):
        for index, layer in enumerate(stack.layers):
            path = (side, f'layer_{index}')
            blocks = [('self_attention', layer.self_attn, layer.self_attn_layer_norm)]
            if side == 'decoder':
                blocks.append(
                    ('cross_attention', layer.encoder_attn, layer.encoder_attn_layer_norm)
                )
            for name, tensors, norm in blocks:
                projections = [tensors.q_proj, tensors.k_proj, tensors.v_proj]
                yield from attention_places(
                    (*path, name),
                    [p.weight for p in projections],
                    [p.bias for p in projections],
                    tensors.out_proj,
                    config,
                )
                yield from norm_places((*path, f'{name}_residual', 'norm'), norm)
            yield from norm_places((*path, 'feed_forward_residual', 'norm'), layer.final_layer_norm)
            yield from linear_places((*path, 'feed_forward', 'inner'), layer.fc1)
            yield from linear_places((*path, 'feed_forward', 'outer'), layer.fc2)
