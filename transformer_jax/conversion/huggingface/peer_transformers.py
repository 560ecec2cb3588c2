"""Hugging Face's transformers, to compare an imported model with."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from transformer_jax.conversion.parity.gate import Output
from transformer_jax.errors import UserError


class TransformersPeer:
    """A Marian model in transformers; see `gate.Peer`.

    Attributes:
      name: 'transformers' and its version.
    """

    def __init__(self, folder: Path, order: np.ndarray):
        """Load a folder.

        Args:
          folder: the Hugging Face folder.
          order: [V] the target id there for each of our ids.

        Raises:
          UserError: if transformers or torch is not installed.
        """
        try:
            import torch
            import transformers
        except ModuleNotFoundError as error:
            raise UserError(
                f'--check needs {error.name}: pip install "transformer_jax[peers]", or leave it '
                'out.'
            ) from error
        self.name = f'transformers {transformers.__version__}'
        self._torch = torch
        self._tokenizer = transformers.MarianTokenizer.from_pretrained(str(folder))
        tokenizer = self._tokenizer
        self._source_pieces = _inverse(tokenizer.encoder)
        self._target_ids = (
            tokenizer.target_encoder if tokenizer.separate_vocabs else tokenizer.encoder
        )
        self._target_pieces = _inverse(self._target_ids)
        self._model = transformers.MarianMTModel.from_pretrained(str(folder), dtype=torch.float32)
        self._model.eval()
        settings = self._model.generation_config
        settings.max_length = None  # it has a limit of its own
        # Otherwise outputs of the greatest length end without the probability of their end.
        settings.forced_eos_token_id = None
        self._order = order

    def source_pieces(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """See `gate.Peer`."""
        return [
            tuple(self._source_pieces[i] for i in self._source(text)[0, :-1].tolist())
            for text in texts
        ]

    def search(self, texts: Sequence[str], beam_size: int, limit: int) -> list[Output]:
        """See `gate.Peer`."""
        batch = self._tokenizer(list(texts), return_tensors='pt', padding=True)
        with self._torch.no_grad():
            found = self._model.generate(
                **batch,
                num_beams=beam_size,
                do_sample=False,
                max_new_tokens=limit,
                # The others end before nothing better can be found.
                early_stopping='never' if beam_size > 1 else False,
                return_dict_in_generate=True,
                output_scores=True,
            )
        scores = found.sequences_scores.tolist() if beam_size > 1 else [float('nan')] * len(texts)
        return [
            Output(self._pieces_of(ids), score)
            for ids, score in zip(found.sequences[:, 1:].tolist(), scores, strict=True)
        ]

    def values(
        self, texts: Sequence[str], outputs: Sequence[tuple[str, ...]]
    ) -> dict[str, list[np.ndarray]]:
        """See `gate.Peer`."""
        torch, config = self._torch, self._model.config
        found = {'encoder': [], 'logits': [], 'log-probabilities': []}
        for text, pieces in zip(texts, outputs, strict=True):
            ids = torch.tensor(
                [*(self._target_ids[piece] for piece in pieces), config.eos_token_id]
            )
            inputs = torch.cat([torch.tensor([config.decoder_start_token_id]), ids[:-1]])
            with torch.no_grad():
                result = self._model(input_ids=self._source(text), decoder_input_ids=inputs[None])
                logits = result.logits[0]
                if self._model.generation_config.renormalize_logits:
                    logits = logits.clone()
                    logits[:, config.pad_token_id] = -torch.inf
                log_probs = torch.log_softmax(logits, -1)[torch.arange(len(ids)), ids]
            found['encoder'].append(result.encoder_last_hidden_state[0].numpy())
            found['logits'].append(result.logits[0].numpy()[:, self._order[1:]])
            found['log-probabilities'].append(log_probs.numpy())
        return found

    def _pieces_of(self, ids: list[int]) -> tuple[str, ...]:
        eos = self._model.config.eos_token_id
        ids = ids[: ids.index(eos)] if eos in ids else ids
        return tuple(self._target_pieces[i] for i in ids)

    def _source(self, text: str):
        return self._tokenizer(text, return_tensors='pt').input_ids


def _inverse(ids: dict[str, int]) -> dict[int, str]:
    return {i: piece for piece, i in ids.items()}
