#!/usr/bin/env python3
"""Writes a model of train.py as a gguf file of architecture qwen3moe: F16 matrices, F32 the rest.

`llama-quantize IN.gguf OUT.gguf Q4_0` then makes the small file.
"""

import argparse

import gguf
import numpy
import torch

import bpe
import moe_model

CONTEXT_LENGTH = 4096  # what the file allows; rotary positions go beyond the training window

# A layer's names in moe_model.py and in gguf, and whether a tensor is a matrix to store in F16.
LAYER_TENSORS = [
    ("attention_norm", "attn_norm.weight", False),
    ("attention.q", "attn_q.weight", True),
    ("attention.k", "attn_k.weight", True),
    ("attention.v", "attn_v.weight", True),
    ("attention.output", "attn_output.weight", True),
    ("attention.q_norm", "attn_q_norm.weight", False),
    ("attention.k_norm", "attn_k_norm.weight", False),
    ("experts_norm", "ffn_norm.weight", False),
    ("experts.router", "ffn_gate_inp.weight", False),
    ("experts.gate", "ffn_gate_exps.weight", True),
    ("experts.up", "ffn_up_exps.weight", True),
    ("experts.down", "ffn_down_exps.weight", True),
]


def add_shape(writer, shape):
    writer.add_vocab_size(shape.vocab)
    writer.add_context_length(CONTEXT_LENGTH)
    writer.add_embedding_length(shape.embd)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.ff)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_layer_norm_rms_eps(moe_model.NORM_EPSILON)
    writer.add_rope_freq_base(moe_model.ROPE_BASE)
    writer.add_expert_count(shape.experts)
    writer.add_expert_used_count(shape.used)
    writer.add_expert_feed_forward_length(shape.ff)


def add_tokenizer(writer, tokenizer, size):
    """The learned tokens, and unused ones up to the model's size."""
    tokens = tokenizer.tokens + [f"<|unused_{i}|>" for i in range(size - len(tokenizer.tokens))]
    special = {tokenizer.numbers[token] for token in bpe.SPECIAL}
    types = [gguf.TokenType.CONTROL if i in special
             else gguf.TokenType.NORMAL if i < len(tokenizer.tokens)
             else gguf.TokenType.UNUSED for i in range(size)]
    end = tokenizer.numbers["<|endoftext|>"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges([" ".join(pair) for pair in tokenizer.ranks])
    writer.add_bos_token_id(end)
    writer.add_eos_token_id(end)
    writer.add_pad_token_id(tokenizer.numbers["<|pad|>"])
    writer.add_add_bos_token(False)


def add_tensors(writer, weights, shape):
    def add(name, key, is_matrix):
        data = weights[key].detach().float().numpy()
        writer.add_tensor(name, data.astype(numpy.float16 if is_matrix else numpy.float32))

    add("token_embd.weight", "embedding", True)
    add("output_norm.weight", "norm", False)
    for i in range(shape.layers):
        for ours, theirs, is_matrix in LAYER_TENSORS:
            add(f"blk.{i}.{theirs}", f"layers.{i}.{ours}", is_matrix)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, metavar="FILE", help="what train.py wrote")
    parser.add_argument("--tokenizer", required=True, metavar="FILE", help="what bpe.py learned")
    parser.add_argument("--out", required=True, metavar="FILE", help="the gguf file")
    parser.add_argument("--name", default="tiny-moe")
    parser.add_argument("--description", default="")
    parser.add_argument("--license", default="CC0-1.0")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    saved = torch.load(arguments.model, map_location="cpu")
    shape = moe_model.Shape(**saved["shape"])
    tokenizer = bpe.Tokenizer.load(arguments.tokenizer)
    if len(tokenizer.tokens) > shape.vocab:
        raise SystemExit(f"{arguments.tokenizer} has {len(tokenizer.tokens)} tokens, the model "
                         f"only {shape.vocab}.")
    writer = gguf.GGUFWriter(arguments.out, "qwen3moe")
    writer.add_name(arguments.name)
    if arguments.description:
        writer.add_description(arguments.description)
    writer.add_license(arguments.license)
    add_shape(writer, shape)
    add_tokenizer(writer, tokenizer, shape.vocab)
    add_tensors(writer, saved["weights"], shape)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
