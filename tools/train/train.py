#!/usr/bin/env python3
"""Trains a small Mixture-of-Experts model on token files (see bpe.py) for a given time.

Each --text names a stem: STEM.train.bin is trained on, STEM.test.bin is held out; a batch has
windows of every text, in the numbers given. The model is saved at every evaluation and at the end,
with its shape.
"""

import argparse
import dataclasses
import math
import os
import time

import numpy
import torch
from torch.nn import functional

import moe_model

WARM_UP_STEPS = 100
LAST_RATE = 0.05  # of the highest, at the end of the cosine
BALANCE_WEIGHT = 0.01


def load_tokens(path):
    return torch.from_numpy(numpy.fromfile(path, dtype="<u2").astype(numpy.int64))


class Text:
    """The tokens of one text and its windows in a batch."""

    def __init__(self, argument, context):
        self.stem, _, share = argument.partition("=")
        self.share = int(share or 8)
        self.train = load_tokens(self.stem + ".train.bin")
        self.test = load_tokens(self.stem + ".test.bin")
        if min(len(self.train), len(self.test)) < context + 2:
            raise SystemExit(f"{self.stem} has fewer tokens than a window of {context}.")

    def windows(self, context, generator):
        """`share` random windows of context + 1 tokens."""
        starts = torch.randint(0, len(self.train) - context, (self.share,), generator=generator)
        return torch.stack([self.train[start:start + context + 1] for start in starts])


def loss_of(model, windows):
    logits, balance = model(windows[:, :-1])
    return functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten()), balance


@torch.no_grad()
def perplexity(model, tokens, most_windows=24):
    """Of a held-out text, over its first windows, each read from its own beginning."""
    context = model.shape.context
    count = min(most_windows, (len(tokens) - 1) // context)
    losses = [loss_of(model, tokens[None, i * context:(i + 1) * context + 1])[0].item()
              for i in range(count)]
    return math.exp(sum(losses) / len(losses))


def make_optimizer(model, rate):
    matrices = [weight for weight in model.parameters() if weight.dim() >= 2]
    vectors = [weight for weight in model.parameters() if weight.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95))


def rate_at(step, share_of_time, highest):
    cosine = 0.5 * (1 + math.cos(math.pi * share_of_time))
    return highest * min(1.0, (step + 1) / WARM_UP_STEPS) * (cosine * (1 - LAST_RATE) + LAST_RATE)


def save(model, path):
    torch.save({"shape": dataclasses.asdict(model.shape), "weights": model.state_dict()},
               path + ".part")
    os.replace(path + ".part", path)


def report(model, texts):
    return ", ".join(f"{text.stem} {perplexity(model, text.test):.2f}" for text in texts)


def train(model, texts, arguments):
    optimizer = make_optimizer(model, arguments.rate)
    generator = torch.Generator().manual_seed(arguments.seed)
    begin = time.monotonic()
    step = 0
    while (share := (time.monotonic() - begin) / (60 * arguments.minutes)) < 1:
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step, share, arguments.rate)
        windows = torch.cat([text.windows(model.shape.context, generator) for text in texts])
        loss, balance = loss_of(model, windows)
        (loss + BALANCE_WEIGHT * balance).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step += 1
        if step % 50 == 0:
            print(f"step {step}, {share:.0%}: loss {loss.item():.3f}, balance {balance.item():.3f}",
                  flush=True)
        if step % arguments.evaluate_every == 0:
            print(f"held-out perplexity: {report(model, texts)}", flush=True)
            save(model, arguments.out)
    return step


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", action="append", required=True, metavar="STEM[=WINDOWS]",
                        help="a text and its windows in a batch (default 8); may be repeated")
    parser.add_argument("--out", required=True, metavar="FILE", help="the trained model")
    parser.add_argument("--minutes", type=float, default=60, help="time to train (default 60)")
    parser.add_argument("--rate", type=float, default=2.5e-3, help="highest learning rate")
    parser.add_argument("--evaluate-every", type=int, default=400, metavar="STEPS")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=1234)
    for field in dataclasses.fields(moe_model.Shape):
        parser.add_argument("--" + field.name.replace("_", "-"), type=int, default=field.default,
                            metavar="N", help=f"of the model (default {field.default})")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    names = [field.name for field in dataclasses.fields(moe_model.Shape)]
    shape = moe_model.Shape(**{name: getattr(arguments, name) for name in names})
    texts = [Text(argument, shape.context) for argument in arguments.text]
    model = moe_model.Model(shape)
    print(f"{sum(weight.numel() for weight in model.parameters()) / 1e6:.1f} M parameters")
    steps = train(model, texts, arguments)
    save(model, arguments.out)
    print(f"{steps} steps; held-out perplexity: {report(model, texts)}")


if __name__ == "__main__":
    main()
