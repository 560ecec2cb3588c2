"""JoeyNMT's model, for speed.py."""

import importlib.metadata
import types

import torch
from joeynmt.model import build_model
from joeynmt.vocabulary import Vocabulary
from peers.torch_steps import trainer


def prepare(work, option=''):
    """As `speed_ours.prepare`."""
    del option
    config = work.model
    marks = {'unk': '<unk>', 'pad': '<pad>', 'bos': '<s>', 'eos': '</s>'}
    special = types.SimpleNamespace(lang_tags=[], sep_token=None, sep_id=None)
    for index, (name, token) in enumerate(marks.items()):
        setattr(special, f'{name}_token', token)
        setattr(special, f'{name}_id', index)
    vocabulary = Vocabulary([str(k) for k in range(4, work.vocab_size)], special)
    stack = {
        'type': 'transformer',
        'num_layers': config.num_layers,
        'num_heads': config.num_heads,
        'hidden_size': config.d_model,
        'ff_size': config.d_ff,
        'dropout': config.dropout_rate,
        'layer_norm': 'post',
        'embeddings': {'embedding_dim': config.d_model, 'scale': True},
    }
    model = build_model(
        {
            'encoder': stack,
            'decoder': stack,
            'tied_embeddings': True,
            'tied_softmax': True,
            'initializer': 'xavier_uniform',
            'embed_initializer': 'xavier_uniform',
        },
        vocabulary,
        vocabulary,
    )
    model.loss_function = ('crossentropy', 0.1)
    model.train()

    def loss(source, target):
        begin = torch.full_like(target[:, :1], vocabulary.bos_index)
        total, _, _, _ = model(
            return_type='loss',
            src=source,
            trg_input=torch.cat([begin, target[:, :-1]], dim=1),
            trg=target,
            src_mask=(source != vocabulary.pad_index).unsqueeze(1),
            trg_mask=(target != vocabulary.pad_index).unsqueeze(1),
            src_length=(source != vocabulary.pad_index).sum(1),
        )
        return total / target.numel()

    version = importlib.metadata.version('joeynmt')
    return f'joeynmt {version} on torch {torch.__version__}', trainer(
        work, loss, model.parameters()
    )
