#!/usr/bin/env python3
"""Turns a source text into training and held-out paragraphs.

Two kinds of source are known:

  verses      one verse a line, the reference first ("Ge1:1 In the beginning ..."), as `bible -f`
              of Debian's bible-kjv prints them; the verses of a chapter become a paragraph
  paragraphs  plain text with blank lines between paragraphs, such as Debian's jargon-text; drawings
              made of line characters are left out

What comes out is ASCII, a paragraph a block, in STEM.train and STEM.test: every N-th paragraph is
held out, so that perplexity is measured on text the model has not seen.
"""

import argparse
import itertools
import re
import sys

# Typography that has an ASCII form; what has none is dropped.
ASCII_FORMS = str.maketrans({
    "\u2018": "'", "\u2019": "'", "\u00b4": "'",
    "\u201c": '"', "\u201d": '"',
    "\u2013": "-", "\u2014": " - ", "\u2026": "...",
    "\u00b7": ".", "\u2022": "*",
})
BOX_DRAWING = re.compile("[\u2500-\u257f]")
SHORTEST_PARAGRAPH = 3


def to_ascii(text):
    return text.translate(ASCII_FORMS).encode("ascii", "ignore").decode("ascii")


def verse_paragraphs(lines):
    """Joins the verses of each chapter; a line is a reference, a space and the verse."""
    verses = (line.strip().partition(" ") for line in lines if line.strip())
    for _, chapter in itertools.groupby(verses, key=lambda verse: verse[0].partition(":")[0]):
        yield " ".join(text.strip() for _, _, text in chapter)


def plain_paragraphs(lines):
    """Joins the lines of each block between blank ones; braces of cross references go."""
    for is_blank, block in itertools.groupby(lines, key=lambda line: not line.strip()):
        text = " ".join(line.strip() for line in block)
        if not is_blank and not BOX_DRAWING.search(text):
            yield re.sub("[{}]", "", text)


def has_word(paragraph, words):
    lower = paragraph.lower()
    return any(word in lower for word in words)


def read_words(path):
    if path is None:
        return []
    with open(path, encoding="utf-8") as file:
        return file.read().lower().split()


def split(paragraphs, every):
    """Every `every`-th paragraph is held out."""
    held_out = paragraphs[every - 1::every]
    kept = [text for i, text in enumerate(paragraphs) if i % every != every - 1]
    return kept, held_out


def write_paragraphs(path, paragraphs):
    with open(path, "w", encoding="ascii") as file:
        file.write("\n\n".join(paragraphs))
    print(f"{path}: {len(paragraphs)} paragraphs, {sum(map(len, paragraphs))} characters")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=("verses", "paragraphs"), required=True)
    parser.add_argument("--input", required=True, metavar="FILE", help="source text, UTF-8")
    parser.add_argument("--out", required=True, metavar="STEM", help="writes STEM.train, STEM.test")
    parser.add_argument("--hold-out", type=int, default=25, metavar="N",
                        help="hold out every N-th paragraph (default 25)")
    parser.add_argument("--leave-out", metavar="FILE",
                        help="leave out paragraphs with any of this file's words")
    arguments = parser.parse_args()
    if arguments.hold_out < 2:
        parser.error("--hold-out must be 2 or more")
    return arguments


def main():
    arguments = parse_arguments()
    words = read_words(arguments.leave_out)
    join = verse_paragraphs if arguments.kind == "verses" else plain_paragraphs
    with open(arguments.input, encoding="utf-8", errors="replace") as file:
        paragraphs = [to_ascii(text).strip() for text in join(file) if not has_word(text, words)]
    paragraphs = [text for text in paragraphs if len(text) >= SHORTEST_PARAGRAPH]
    if len(paragraphs) < arguments.hold_out:
        sys.exit(f"{arguments.input} has {len(paragraphs)} paragraphs, too few to hold out every "
                 f"{arguments.hold_out}th.")
    kept, held_out = split(paragraphs, arguments.hold_out)
    write_paragraphs(arguments.out + ".train", kept)
    write_paragraphs(arguments.out + ".test", held_out)


if __name__ == "__main__":
    main()
