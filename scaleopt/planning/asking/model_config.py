"""The shape of a model, from the `config.json` that Hugging Face models come with."""

import json
from pathlib import Path
from typing import Any

from scaleopt.models.transformer import Transformer
from scaleopt.planning.asking.given import whole_number

_NAMES = {
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "layers": ("num_hidden_layers", "n_layer", "n_layers"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "vocab": ("vocab_size",),
    "kv_heads": ("num_key_value_heads", "num_kv_heads"),
    "head_size": ("head_dim",),
    "feed_forward": ("moe_intermediate_size", "intermediate_size", "n_inner", "ffn_dim"),
    "experts": ("num_local_experts", "num_experts", "n_routed_experts"),
    "active_experts": ("num_experts_per_tok", "num_experts_per_token"),
}
"""What a size is called there; the first that is given counts."""
_NEEDED = ("hidden", "layers", "heads", "vocab")
_LENGTH = ("max_position_embeddings", "n_positions", "max_seq_len")
_UNGATED = ("gpt2", "gpt_neo", "gpt_neox", "gpt_bigcode", "bloom", "opt", "falcon", "bert", "mpt")
"""Kinds whose MLP has two matrices, and biases."""
_GATED = ("llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe", "gemma", "gemma2")
_GATED += ("phi3", "olmo", "olmo2", "olmoe", "granite", "stablelm", "cohere", "internlm2")
"""Kinds whose MLP has a gate, and no biases."""
_TIED = (*_UNGATED, "gemma", "gemma2", "cohere")
"""Kinds whose head is the embedding unless they say otherwise."""
_LEARNED = ("gpt2", "gpt_neo", "gpt_bigcode", "opt", "bert")
"""Kinds with a learned vector for each position."""


def read_model(path: str | Path, *, seq_len: int | None = None, **changes: Any) -> Transformer:
    """The transformer that a `config.json` describes.

    Args:
        path: the file.
        seq_len: tokens of a sequence in training; the most that the model takes unless given.
        changes: what else a `Transformer` takes, in place of what the file says.

    Returns:
        The transformer. Where one expert of several is shared by all tokens, as in some mixtures,
        it is not counted: such a model is refused.

    Raises:
        ValueError: no JSON object, a kind of model that is not known, or a size that it lacks.
        TypeError: a size that is no number.
    """
    path = Path(path)
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is no JSON ({error.msg}, line {error.lineno})") from None
    if not isinstance(config, dict):
        raise ValueError(f"{path} holds no JSON object; give a model's config.json")
    config = config.get("text_config", config)
    kind = _kind(config, path)
    if config.get("n_shared_experts") or config.get("shared_expert_intermediate_size"):
        raise ValueError(
            f"{path}: experts that all tokens share are not counted by Transformer yet"
        )
    sizes: dict[str, Any] = {}
    for size, names in _NAMES.items():
        given = [name for name in names if config.get(name) is not None]
        if given:
            sizes[size] = whole_number(f"{path}: {given[0]}", config[given[0]])
        elif size in _NEEDED and size not in changes:
            raise ValueError(f"{path} has no {names[0]}; is it a model's config.json?")
    lengths = [whole_number(f"{path}: {it}", config[it]) for it in _LENGTH if config.get(it)]
    if seq_len is None and not lengths:
        raise ValueError(f"{path} has no {_LENGTH[0]}; give seq_len=…")
    old = kind in _UNGATED
    described: dict[str, Any] = {
        "seq_len": lengths[0] if seq_len is None else seq_len,
        "gated": not old,
        "biases": old,
        "tied": config.get("tie_word_embeddings", kind in _TIED),
        "positions": lengths[0] if kind in _LEARNED and lengths else 0,
        "fused_attention": True,
    }
    return Transformer(**(sizes | described | changes))


def _kind(config: dict[str, Any], path: Path) -> str:
    """The kind of model: one whose layers are known, since sizes alone do not tell them."""
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in _UNGATED + _GATED:
        said = "names no model_type" if kind is None else f"has model_type {kind!r}"
        raise ValueError(
            f"{path} {said}, and is read for {', '.join(sorted(_UNGATED + _GATED))} alone; if it "
            "is a transformer, give its sizes instead: so.Transformer(…), or [model] in a file"
        )
    return kind
