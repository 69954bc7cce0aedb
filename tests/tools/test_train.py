#!/usr/bin/env python3
"""Tests the text and tokenizer steps of tools/train on small texts; needs Python alone.

Run by CTest as: test_train.py TOOLS_TRAIN_FOLDER
"""

import array
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(sys.argv.pop(1)).resolve()
sys.dont_write_bytecode = True
sys.path.insert(0, str(TOOLS))

import bpe  # noqa: E402
import prepare_text  # noqa: E402

SENTENCE = "The cat's paw, the cat and 42 other cats sat on the mat.\n\n  It's all;  they'll stay "


def run(script, *arguments):
    command = [sys.executable, "-B", str(TOOLS / script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


class TokenizerTest(unittest.TestCase):
    def test_a_text_comes_back(self):
        tokenizer = bpe.Tokenizer(bpe.learn(SENTENCE * 3, 300))
        for text in (SENTENCE, "Unseen words: \u00e4\u20ac \t\n x", "", " "):
            self.assertEqual(tokenizer.decode(tokenizer.encode(text)), text)

    def test_merges_shorten(self):
        plain = bpe.Tokenizer(bpe.learn("", 300))
        learned = bpe.Tokenizer(bpe.learn(SENTENCE * 3, 300))
        self.assertEqual(len(plain.encode(SENTENCE)), len(SENTENCE))
        self.assertLess(len(learned.encode(SENTENCE)), len(SENTENCE) * 0.6)

    def test_size_and_order(self):
        learned = bpe.learn(SENTENCE * 3, 290)
        self.assertEqual(len(learned["vocab"]), 290)
        self.assertEqual(learned["vocab"][-len(bpe.SPECIAL):], bpe.SPECIAL)
        self.assertEqual(len(set(learned["vocab"])), 290)
        self.assertEqual(len(learned["merges"]), 290 - 256 - len(bpe.SPECIAL))

    def test_first_merge_is_the_most_frequent_pair(self):
        self.assertEqual(bpe.learn("abab abab xy", 261)["merges"], [("a", "b")])

    def test_pairs_that_overlap(self):
        self.assertEqual(bpe.merge_pair(list("aaaaa"), ("a", "a")), ["aa", "aa", "a"])

    def test_counts_stay_right(self):
        pairs = bpe.PairCounts(SENTENCE * 3)
        for _ in range(20):
            pairs.merge(pairs.most_frequent())
        expected = {}
        for word, times in zip(pairs.words, pairs.times):
            for pair in zip(word, word[1:]):
                expected[pair] = expected.get(pair, 0) + times
        self.assertEqual(dict(pairs.counts), expected)


class TextTest(unittest.TestCase):
    def test_verses_of_a_chapter_are_joined(self):
        lines = ["Ge1:1 In the beginning\n", "Ge1:2 And the earth\n", "Ge2:1 Thus\n"]
        self.assertEqual(list(prepare_text.verse_paragraphs(lines)),
                         ["In the beginning And the earth", "Thus"])

    def test_paragraphs(self):
        lines = ["one\n", "  two\n", "\n", " \n", "\u2500\u2500\u2510\n", "\n", "see {three}\n"]
        self.assertEqual(list(prepare_text.plain_paragraphs(lines)), ["one two", "see three"])

    def test_ascii(self):
        self.assertEqual(prepare_text.to_ascii("\u201cd\u2019oh\u201d \u2014 \u00e9t\u2026"),
                         "\"d'oh\"  -  t...")

    def test_hold_out(self):
        kept, held_out = prepare_text.split(list(range(10)), 4)
        self.assertEqual((kept, held_out), ([0, 1, 2, 4, 5, 6, 8, 9], [3, 7]))


class SyntaxTest(unittest.TestCase):
    def test_every_script_compiles(self):
        scripts = sorted(TOOLS.glob("*.py"))
        self.assertGreaterEqual(len(scripts), 5)
        for script in scripts:
            compile(script.read_text(encoding="utf-8"), script.name, "exec")


class CommandTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_from_text_to_numbers(self):
        source = self.folder / "source.txt"
        source.write_text("\n\n".join(f"Paragraph {i} of the text, bad." for i in range(60))
                          + "\n\nan evil word\n", encoding="utf-8")
        (self.folder / "words").write_text("evil\n", encoding="utf-8")
        stem = self.folder / "text"
        done = run("prepare_text.py", "--kind", "paragraphs", "--input", source, "--out", stem,
                   "--leave-out", self.folder / "words", "--hold-out", 10)
        self.assertEqual(done.returncode, 0, done.stderr)
        train, test = (pathlib.Path(f"{stem}.{part}").read_text() for part in ("train", "test"))
        self.assertEqual((train.count("Paragraph"), test.count("Paragraph")), (54, 6))
        self.assertNotIn("evil", train + test)
        done = run("bpe.py", "learn", "--size", 280, "--out", self.folder / "bpe.json",
                   f"{stem}.train")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = run("bpe.py", "encode", "--tokenizer", self.folder / "bpe.json", "--out",
                   self.folder / "text.bin", f"{stem}.test")
        self.assertEqual(done.returncode, 0, done.stderr)
        numbers = array.array("H", (self.folder / "text.bin").read_bytes())
        self.assertEqual(bpe.Tokenizer.load(self.folder / "bpe.json").decode(numbers), test)

    def test_wrong_options(self):
        self.assertEqual(run("prepare_text.py", "--kind", "poem").returncode, 2)
        self.assertEqual(run("bpe.py", "learn", "--size", 20, "--out", "x", "y").returncode, 2)


if __name__ == "__main__":
    unittest.main()
