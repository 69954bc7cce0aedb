#!/usr/bin/env python3
"""A byte-level BPE tokenizer: learns one, and turns text into token numbers.

  bpe.py learn --size 2048 --out bpe.json TEXT...     learn merges from texts
  bpe.py encode --tokenizer bpe.json --out X.bin TEXT 16-bit token numbers of a text

It is the tokenizer gguf calls "gpt2" with the pre-tokenizer "gpt-2", restricted to ASCII letters
and digits: text is cut into words (a space belongs to the word behind it), bytes are written as
printable characters, and the most frequent pair of neighbours is merged again and again.
"""

import argparse
import array
import collections
import json
import re
import sys

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>"]
WORDS = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+"
                   r"|\s+(?!\S)|\s+")
LARGEST_SIZE = 65536  # token numbers are stored in 16 bits


def byte_characters():
    """The printable character GPT-2 writes for each byte: itself, or one from 256 on."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    stand_ins = iter(range(256, 512))
    return [chr(byte if byte in printable else next(stand_ins)) for byte in range(256)]


BYTE_CHARACTERS = byte_characters()


def words_of(text):
    """The words of a text, in the characters that stand for their bytes."""
    for word in WORDS.findall(text):
        yield "".join(BYTE_CHARACTERS[byte] for byte in word.encode("utf-8"))


def merge_pair(symbols, pair):
    """The symbols with every occurrence of the pair joined, from left to right."""
    merged = []
    i = 0
    while i < len(symbols):
        if tuple(symbols[i:i + 2]) == pair:
            merged.append(symbols[i] + symbols[i + 1])
            i += 2
        else:
            merged.append(symbols[i])
            i += 1
    return merged


class PairCounts:
    """How often each pair of neighbours occurs, and in which words; kept up to date by merging."""

    def __init__(self, text):
        counted = collections.Counter(words_of(text))
        self.words = [list(word) for word in counted]
        self.times = list(counted.values())
        self.counts = collections.Counter()
        self.places = collections.defaultdict(set)
        for i in range(len(self.words)):
            self._add(i)

    def _add(self, i):
        for pair in zip(self.words[i], self.words[i][1:]):
            self.counts[pair] += self.times[i]
            self.places[pair].add(i)

    def _remove(self, i):
        for pair in zip(self.words[i], self.words[i][1:]):
            self.counts[pair] -= self.times[i]
            self.places[pair].discard(i)
            if self.counts[pair] <= 0:
                del self.counts[pair]

    def most_frequent(self):
        """The most frequent pair (the last in order among equals), or None if none occurs twice."""
        if not self.counts:
            return None
        pair, count = max(self.counts.items(), key=lambda item: (item[1], item[0]))
        return pair if count >= 2 else None

    def merge(self, pair):
        for i in list(self.places[pair]):
            self._remove(i)
            self.words[i] = merge_pair(self.words[i], pair)
            self._add(i)


def learn(text, size):
    """A tokenizer of `size` tokens, special ones last; fewer if the text has no more pairs."""
    vocabulary = dict.fromkeys(BYTE_CHARACTERS)
    merges = []
    pairs = PairCounts(text)
    while len(vocabulary) + len(SPECIAL) < size:
        pair = pairs.most_frequent()
        if pair is None:
            break
        pairs.merge(pair)
        merges.append(pair)
        vocabulary[pair[0] + pair[1]] = None
    return {"vocab": list(vocabulary) + SPECIAL, "merges": merges}


class Tokenizer:
    """Encodes and decodes with what learn() returned; words met before are remembered."""

    def __init__(self, learned):
        self.tokens = learned["vocab"]
        self.numbers = {token: i for i, token in enumerate(self.tokens)}
        self.ranks = {tuple(pair): i for i, pair in enumerate(learned["merges"])}
        self.known = {}

    @classmethod
    def load(cls, path):
        with open(path, encoding="utf-8") as file:
            return cls(json.load(file))

    def _encode_word(self, word):
        symbols = list(word)
        while len(symbols) > 1:
            pairs = set(zip(symbols, symbols[1:])) & self.ranks.keys()
            if not pairs:
                break
            symbols = merge_pair(symbols, min(pairs, key=self.ranks.get))
        return [self.numbers[symbol] for symbol in symbols]

    def encode(self, text):
        numbers = []
        for word in words_of(text):
            if word not in self.known:
                self.known[word] = self._encode_word(word)
            numbers += self.known[word]
        return numbers

    def decode(self, numbers):
        byte_of = {character: byte for byte, character in enumerate(BYTE_CHARACTERS)}
        text = "".join(self.tokens[number] for number in numbers)
        return bytes(byte_of[character] for character in text).decode("utf-8", "replace")


def read_text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def run_learn(arguments):
    learned = learn("\n\n".join(map(read_text, arguments.texts)), arguments.size)
    with open(arguments.out, "w", encoding="utf-8") as file:
        json.dump(learned, file)
    print(f"{arguments.out}: {len(learned['vocab'])} tokens, {len(learned['merges'])} merges")


def run_encode(arguments):
    text = read_text(arguments.text)
    numbers = Tokenizer.load(arguments.tokenizer).encode(text)
    if not numbers:
        sys.exit(f"{arguments.text} is empty.")
    stored = array.array("H", numbers)
    if sys.byteorder == "big":
        stored.byteswap()
    with open(arguments.out, "wb") as file:
        stored.tofile(file)
    print(f"{arguments.out}: {len(numbers)} tokens, {len(text) / len(numbers):.2f} characters each")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("learn", help="learn merges from texts")
    command.add_argument("--size", type=int, default=2048, help="tokens in all (default 2048)")
    command.add_argument("--out", required=True, metavar="FILE", help="the tokenizer, JSON")
    command.add_argument("texts", nargs="+", metavar="TEXT")
    command.set_defaults(run=run_learn)
    command = commands.add_parser("encode", help="turn a text into token numbers")
    command.add_argument("--tokenizer", required=True, metavar="FILE")
    command.add_argument("--out", required=True, metavar="FILE", help="numbers of 16 bits")
    command.add_argument("text", metavar="TEXT")
    command.set_defaults(run=run_encode)
    arguments = parser.parse_args()
    if not 256 + len(SPECIAL) < getattr(arguments, "size", 2048) <= LARGEST_SIZE:
        parser.error(f"--size must be from {257 + len(SPECIAL)} to {LARGEST_SIZE}")
    return arguments


def main():
    arguments = parse_arguments()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
