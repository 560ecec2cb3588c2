"""The attention of all layers and heads, and the most likely tokens, for given outputs."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from transformer_jax.data.vocabulary.vocabulary import Vocabulary
from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair
from transformer_jax.errors import UserError
from transformer_jax.forced.teacher_forcing import TeacherForcing
from transformer_jax.inference.network import Ensemble, Network
from transformer_jax.inference.sorted_batches import ATTENTION_POSITIONS
from transformer_jax.model import shift_right
from transformer_jax.runtime.program_cache import cached_jit

START, EOS = '<start>', '</s>'
TOP = 5


@dataclasses.dataclass(frozen=True)
class Attention:
    """What a model attends to while it reads a text and writes an output.

    S and T are the numbers of tokens of both sides, EOS included; L layers have N heads. Row t of
    the decoder is the step that reads `inputs[t]` and predicts `target[t]`.

    Attributes:
      source: S pieces of the text, the last is '</s>'.
      inputs: T pieces that the decoder reads, the first is '<start>'.
      target: T pieces that it has to predict, the last is '</s>'.
      encoder: [L, N, S, S] float32, weights of each token (query) to all tokens (keys).
      decoder: [L, N, T, T] float32, weights of each step to the inputs up to it.
      cross: [L, N, T, S] float32, weights of each step to the tokens of the source.
      log_probs: [T] float32, log-probability of each piece of the target, in nats.
      top: for each step the five most likely pieces with their probabilities, the best first.
      source_words: the index in `text.split()` of the word of each source piece, None for EOS and
        for a tag that names the target language.
      target_words: the same for the target and `output`.
      text: the text, without a tag.
      output: the text of the target.
    """

    source: tuple[str, ...]
    inputs: tuple[str, ...]
    target: tuple[str, ...]
    encoder: np.ndarray
    decoder: np.ndarray
    cross: np.ndarray
    log_probs: np.ndarray
    top: tuple[tuple[tuple[str, float], ...], ...]
    source_words: tuple[int | None, ...]
    target_words: tuple[int | None, ...]
    text: str
    output: str

    def bertviz(self) -> dict[str, Any]:
        """Return the arguments of `bertviz.head_view` and `bertviz.model_view`, with torch tensors.

        Raises:
          UserError: if torch, which bertviz needs, is not installed.
        """
        try:
            import torch
        except ModuleNotFoundError as error:
            raise UserError('bertviz needs torch: pip install torch bertviz.') from error

        def layers(weights_LNTS: np.ndarray) -> list[Any]:
            return [torch.tensor(weights_NTS[None]) for weights_NTS in weights_LNTS]

        return {
            'encoder_attention': layers(self.encoder),
            'decoder_attention': layers(self.decoder),
            'cross_attention': layers(self.cross),
            'encoder_tokens': list(self.source),
            'decoder_tokens': list(self.inputs),
        }


class AttentionReader:
    """Computes the attention of one model for pairs of a text and an output."""

    def __init__(self, network: Network, vocabulary: VocabularyPair):
        """Read the attention of the model of `network`."""
        self._vocabulary = vocabulary
        self._teacher_forcing = TeacherForcing(network, positions=ATTENTION_POSITIONS)

    def fix_shapes(self, longest: int) -> None:
        """Compile what pairs of up to `longest` tokens need, so that nothing is compiled later."""
        for ids in self._teacher_forcing.fix_shapes(longest):
            _ = [*self._teacher_forcing.run(_maps, {}, [ids], [ids], None)]

    def __call__(
        self,
        texts: Sequence[str],
        sources: Sequence[np.ndarray],
        targets: Sequence[np.ndarray],
        numbers: Sequence[int],
    ) -> list[Attention]:
        """Return the attention of each pair.

        Args:
          texts: raw text of each source, behind its tag if there is one.
          sources: int32 ids of each source, which end with EOS.
          targets: int32 ids of each output, which end with EOS.
          numbers: the line number of each pair, for messages.

        Raises:
          UserError: if there are several models, or a pair is too long for learned positions or for
            the memory of a device.
        """
        models = len(self._teacher_forcing.network.ensemble.models)
        if models > 1:
            raise UserError(
                f'attention is that of one model, but {models} are loaded: name one workdir.'
            )
        found: list[Any] = [None] * len(texts)
        for k, arrays in self._teacher_forcing.run(_maps, {}, sources, targets, numbers):
            found[k] = self._attention(texts[k], sources[k], targets[k], arrays)
        return found

    def _attention(
        self, text: str, source: np.ndarray, target: np.ndarray, arrays: dict[str, np.ndarray]
    ) -> Attention:
        s, t = len(source), len(target)
        source_side, target_side = self._vocabulary.source, self._vocabulary.target
        pieces = tuple(target_side.pieces(target.tolist()))
        words = source_side.source_words(text)[: s - 1]
        tops = zip(arrays['top_ids'][:t], arrays['top_probs'][:t], strict=True)
        return Attention(
            source=(*source_side.pieces(source.tolist()), EOS),
            inputs=(START, *pieces),
            target=(*pieces, EOS),
            encoder=arrays['encoder'][..., :s, :s],
            decoder=arrays['decoder'][..., :t, :t],
            cross=arrays['cross'][..., :t, :s],
            log_probs=arrays['log_probs'][:t],
            top=tuple(
                tuple((_piece(target_side, i), float(p)) for i, p in zip(ids, probs, strict=True))
                for ids, probs in tops
            ),
            source_words=(*words, None),
            target_words=tuple(target_side.output_words(target.tolist())),
            text=source_side.take_tag(text)[1],
            output=target_side.decode(target.tolist()),
        )


def _piece(vocabulary: Vocabulary, token: int) -> str:
    if token == vocabulary.eos_id:
        return EOS
    return ''.join(vocabulary.pieces([int(token)])) or '<pad>'


@cached_jit(static_argnames=('ensemble',))
def _maps(
    variables: Sequence[Any], batch: dict[str, jax.Array], *, ensemble: Ensemble
) -> dict[str, jax.Array]:
    """Return weights [B, L, N, T, S], log-probabilities [B, T] and the best tokens [B, T, 5]."""
    (model,), (of_model,) = ensemble.models, variables
    logits_BTV, sown = model.apply(
        of_model, batch['source'], shift_right(batch['target']), mutable=['intermediates']
    )
    log_probs_BTV = jax.nn.log_softmax(logits_BTV.astype(jnp.float32))
    chosen_BT = jnp.take_along_axis(log_probs_BTV, batch['target'][..., None], axis=-1)[..., 0]
    top_BTK, ids_BTK = jax.lax.top_k(log_probs_BTV, min(TOP, log_probs_BTV.shape[-1]))

    def weights(stack: str, attention: str) -> jax.Array:
        layers = sown['intermediates'][stack]
        return jnp.stack(
            [
                layers[f'layer_{k}'][attention]['attention_weights'][0].astype(jnp.float32)
                for k in range(model.config.num_layers)
            ],
            axis=1,
        )

    found = {
        'encoder': weights('encoder', 'self_attention'),
        'decoder': weights('decoder', 'self_attention'),
        'cross': weights('decoder', 'cross_attention'),
        'log_probs': chosen_BT,
        'top_ids': ids_BTK,
        'top_probs': jnp.exp(top_BTK),
    }
    # Replicate the results, so that every process can read all of them.
    return {name: model.layout(x, '-' * x.ndim) for name, x in found.items()}
