"""One tiny configuration per family, and more where a family has kinds that differ in what attention or head do."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

BASE: dict[str, Any] = {
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 128, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "initializer_range": 0.2, "tie_word_embeddings": False,
}  # fmt: skip
_HEADS = {"head_dim": 8}
_MOE = {"num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2,
        "moe_intermediate_size": 24, "shared_expert_intermediate_size": 24, "n_shared_experts": 1, "n_group": 1,
        "topk_group": 1, "first_k_dense_replace": 1, "decoder_sparse_step": 1, "num_shared_experts": 1}  # fmt: skip
_LATENT = {"num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,
           "v_head_dim": 8}  # fmt: skip
_SCAN = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_expand": 2, "mamba_d_state": 8, "mamba_n_groups": 1,
         "mamba_chunk_size": 8, "mamba_d_ssm": 64}  # fmt: skip
_LINEAR = {"linear_key_head_dim": 8, "linear_value_head_dim": 8, "linear_num_key_heads": 2, "linear_num_value_heads": 4}
_LONGROPE = {"rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 24,
             "short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [2.0, 3.0, 4.0, 5.0]}  # fmt: skip

# name in the table: model_type, and what differs from BASE
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    # read by the fused decoder
    "Llama": ("llama", _HEADS),
    "Llama, tied, biases": ("llama", {**_HEADS, "tie_word_embeddings": True, "attention_bias": True}),
    "Llama, mlp biases": ("llama", {**_HEADS, "mlp_bias": True}),
    "Llama, yarn": ("llama", {**_HEADS, "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 32}}),
    "Llama, dynamic rope": ("llama", {**_HEADS, "max_position_embeddings": 32, "rope_parameters": {
        "rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}}),
    "Mistral": ("mistral", {**_HEADS, "sliding_window": None}),
    "Mistral, window": ("mistral", {**_HEADS, "sliding_window": 6}),
    "Qwen2": ("qwen2", {}),
    "Qwen2, tied": ("qwen2", {"tie_word_embeddings": True}),
    "Qwen2, windows in the second layer": ("qwen2", {
        "use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1}),
    "Qwen3": ("qwen3", _HEADS),
    # dense, full attention or windows
    "Apertus": ("apertus", _HEADS),
    "Arcee": ("arcee", _HEADS),
    "BioGPT": ("biogpt", {}),
    "BitNet": ("bitnet", _HEADS),
    "Bloom": ("bloom", {"n_layer": 2, "n_head": 4}),
    "CodeGen": ("codegen", {"n_embd": 32, "n_head": 4, "n_layer": 2, "rotary_dim": 4, "n_positions": 128}),
    "Cohere": ("cohere", {"logit_scale": 0.25}),
    "Cohere 2": ("cohere2", {**_HEADS, "logit_scale": 0.25, "sliding_window": 6}),
    "CTRL": ("ctrl", {"n_embd": 32, "n_head": 4, "n_layer": 2, "dff": 48, "n_positions": 128}),
    "DiffLlama": ("diffllama", _HEADS),
    "Doge": ("doge", {**_HEADS, "keep_window_size": 6}),
    "Ernie 4.5": ("ernie4_5", _HEADS),
    "EXAONE 4": ("exaone4", {**_HEADS, "sliding_window": 6, "sliding_window_pattern": 2}),
    "Falcon": ("falcon", {"multi_query": True}),
    "Falcon, new decoder": ("falcon", {"new_decoder_architecture": True, "num_kv_heads": 2}),
    "Falcon, alibi": ("falcon", {"alibi": True, "multi_query": False}),
    "Gemma": ("gemma", _HEADS),
    "Gemma 2": ("gemma2", {**_HEADS, "sliding_window": 6}),
    "Gemma 2, final cap only": ("gemma2", {**_HEADS, "sliding_window": 6, "attn_logit_softcapping": None}),
    "Gemma 3": ("gemma3_text", {**_HEADS, "sliding_window": 6, "sliding_window_pattern": 2}),
    "Gemma 3n": ("gemma3n_text", {**_HEADS, "sliding_window": 6, "num_hidden_layers": 4, "num_kv_shared_layers": 2,
        "layer_types": ["sliding_attention", "full_attention"] * 2, "laurel_rank": 4, "intermediate_size": [48] * 4,
        "vocab_size_per_layer_input": 64, "hidden_size_per_layer_input": 8, "altup_num_inputs": 2,
        "activation_sparsity_pattern": [0.0] * 4}),
    "Gemma 4": ("gemma4_text", {**_HEADS, "sliding_window": 6, "vocab_size_per_layer_input": 64,
        "hidden_size_per_layer_input": 8, "global_head_dim": 8}),
    "GLM": ("glm", _HEADS),
    "GLM 4": ("glm4", _HEADS),
    "GPT-2": ("gpt2", {"n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 128, "tie_word_embeddings": True}),
    "GPT-BigCode": ("gpt_bigcode", {"n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 128}),
    "GPT-J": ("gptj", {"n_embd": 32, "n_head": 4, "n_layer": 2, "rotary_dim": 4, "n_positions": 128}),
    "GPT-Neo": ("gpt_neo", {"num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]],
        "window_size": 6}),
    "GPT-NeoX": ("gpt_neox", {}),
    "Granite": ("granite", {"logits_scaling": 4.0, "attention_multiplier": 0.2, "embedding_multiplier": 2.0}),
    "Granite, logits unscaled": ("granite", {"logits_scaling": 1.0, "attention_multiplier": 0.2}),
    "Helium": ("helium", _HEADS),
    "HunYuan": ("hunyuan_v1_dense", _HEADS),
    "MiniCPM 3": ("minicpm3", _LATENT),
    "Ministral": ("ministral", {**_HEADS, "sliding_window": 6}),
    "ModernBERT decoder": ("modernbert-decoder", {"local_attention": 12, "global_attn_every_n_layers": 2}),
    "MPT": ("mpt", {"d_model": 32, "n_heads": 4, "n_layers": 2, "expansion_ratio": 2, "max_seq_len": 128}),
    "nanochat": ("nanochat", _HEADS),
    "Nemotron": ("nemotron", _HEADS),
    "OLMo": ("olmo", {}),
    "OLMo 2": ("olmo2", {}),
    "OLMo 3": ("olmo3", {"sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"]}),
    "OPT": ("opt", {"ffn_dim": 48, "word_embed_proj_dim": 32}),
    "Persimmon": ("persimmon", {}),
    "Phi": ("phi", {}),
    "Phi-3": ("phi3", {}),
    "Phi-3, longrope": ("phi3", {"original_max_position_embeddings": 24, "rope_parameters": _LONGROPE}),
    "Phi-3, window": ("phi3", {"sliding_window": 6}),
    "Seed-OSS": ("seed_oss", _HEADS),
    "SmolLM3": ("smollm3", {**_HEADS, "no_rope_layers": [1, 0]}),
    "StableLM": ("stablelm", {}),
    "StarCoder 2": ("starcoder2", {"sliding_window": 6}),
    "VaultGemma": ("vaultgemma", {**_HEADS, "sliding_window": 6}),
    "XGLM": ("xglm", {"d_model": 32, "num_layers": 2, "attention_heads": 4, "ffn_dim": 48}),
    # mixtures of experts
    "AFMoE": ("afmoe", {**_HEADS, **_MOE, "num_dense_layers": 1, "sliding_window": 6}),
    "DBRX": ("dbrx", {"d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 128,
        "attn_config": {"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8.0},
        "ffn_config": {"ffn_hidden_size": 24, "moe_num_experts": 4, "moe_top_k": 2}}),
    "DeepSeek-V2": ("deepseek_v2", {**_MOE, **_LATENT}),
    "DeepSeek-V3": ("deepseek_v3", {**_MOE, **_LATENT}),
    "dots.llm1": ("dots1", {**_HEADS, **_MOE}),
    "Ernie 4.5 MoE": ("ernie4_5_moe", {**_HEADS, **_MOE, "moe_num_experts": 4, "moe_k": 2}),
    "FlexOlmo": ("flex_olmo", _MOE),
    "GLM 4 MoE": ("glm4_moe", {**_HEADS, **_MOE}),
    "gpt-oss": ("gpt_oss", {**_HEADS, **_MOE, "sliding_window": 6}),
    "Granite MoE": ("granitemoe", {**_MOE, "logits_scaling": 4.0}),
    "HunYuan MoE": ("hunyuan_v1_moe", {**_HEADS, **_MOE, "moe_topk": 2}),
    "JetMoe": ("jetmoe", {**_MOE, "kv_channels": 8}),
    "Llama 4": ("llama4_text", {**_HEADS, **_MOE, "attention_chunk_size": 8, "intermediate_size_mlp": 48}),
    "Mixtral": ("mixtral", {**_HEADS, **_MOE}),
    "OLMoE": ("olmoe", _MOE),
    "PhiMoE": ("phimoe", {**_MOE, "sliding_window": 6}),
    "Qwen2 MoE": ("qwen2_moe", _MOE),
    "Qwen2 MoE, windows": ("qwen2_moe", {
        **_MOE, "use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1}),
    "Qwen3 MoE": ("qwen3_moe", {**_HEADS, **_MOE}),
    # state spaces, convolutions, linear attention
    "Bamba": ("bamba", {**_SCAN, "attn_layer_indices": [1]}),
    "Falcon-H1": ("falcon_h1", {**_HEADS, **_SCAN}),
    "Falcon Mamba": ("falcon_mamba", {"state_size": 4}),
    "Granite MoE hybrid": ("granitemoehybrid", {**_MOE, **_SCAN, "layer_types": ["mamba", "attention"]}),
    "Jamba": ("jamba", {**_MOE, "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2,
        "expert_layer_offset": 1, "mamba_d_state": 4, "use_mamba_kernels": False}),
    "Kimi Linear": ("kimi_linear", {**_LATENT, **_MOE, "layer_types": ["linear_attention", "full_attention"],
        "linear_head_dim": 8, "linear_num_heads": 4}),
    "LFM2": ("lfm2", {"layer_types": ["conv", "full_attention"], "block_auto_adjust_ff_dim": False}),
    "LFM2 MoE": ("lfm2_moe", {**_MOE, "layer_types": ["conv", "full_attention"], "num_dense_layers": 1}),
    "Mamba": ("mamba", {"state_size": 4}),
    "Mamba 2": ("mamba2", {
        "num_heads": 8, "head_dim": 8, "expand": 2, "state_size": 8, "n_groups": 1, "chunk_size": 8}),
    "MiniMax": ("minimax", {**_HEADS, **_MOE, "block_size": 8, "layer_types": ["linear_attention", "full_attention"]}),
    "Nemotron-H": ("nemotron_h", {**_HEADS, **_MOE, "layers_block_type": ["mamba", "attention", "moe"],
        "num_hidden_layers": 3, "mamba_num_heads": 8, "mamba_head_dim": 8, "ssm_state_size": 8, "n_groups": 1,
        "chunk_size": 8, "moe_shared_expert_intermediate_size": 24}),
    "OLMo hybrid": ("olmo_hybrid", {**_LINEAR, "layer_types": ["linear_attention", "full_attention"]}),
    "Qwen3-Next": ("qwen3_next", {**_HEADS, **_MOE, **_LINEAR, "layer_types": ["linear_attention", "full_attention"]}),
    "Qwen3.5": ("qwen3_5_text", {**_HEADS, **_LINEAR, "layer_types": ["linear_attention", "full_attention"]}),
    "RecurrentGemma": ("recurrent_gemma", {"lru_width": 32, "attention_window_size": 6, "num_hidden_layers": 3}),
    "RWKV": ("rwkv", {"attention_hidden_size": 32}),
    "xLSTM": ("xlstm", {"num_heads": 4, "chunk_size": 8}),
    "Zamba": ("zamba", {"num_hidden_layers": 3, "layers_block_type": ["mamba", "hybrid", "mamba"], "mamba_d_state": 4,
        "n_mamba_heads": 2, "attention_hidden_size": 64, "attention_head_dim": 16, "use_mamba_kernels": False}),
    "Zamba 2": ("zamba2", {"num_hidden_layers": 3, "layers_block_type": ["mamba", "hybrid", "mamba"],
        "mamba_d_state": 8, "n_mamba_heads": 8, "mamba_headdim": 8, "mamba_ngroups": 1, "chunk_size": 8,
        "num_mem_blocks": 1, "adapter_rank": 4, "use_mamba_kernels": False}),
}  # fmt: skip


def tiny(name: str) -> PreTrainedModel:
    """A random model of a family; norms and biases are random too, since ones and zeros would hide a missing one."""
    model_type, changes = FAMILIES[name]
    torch.manual_seed(0)
    model: PreTrainedModel = AutoModelForCausalLM.from_config(AutoConfig.for_model(model_type, **BASE | changes)).eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if "norm" in key or "bias" in key:
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model
