"""Writes vocab.json and merges.txt, a small byte-level vocabulary learned from a text, and cases.json, what GPT-2's encoder makes of some texts
with it. It is written after the description of the method; the expression that finds words is GPT-2's own. Run: python3 bpe.py"""

import collections
import json

import regex

WORD = regex.compile(r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""")
MERGES = 60
TEXT = """The cat sat on the mat, and the dog sat by the door. They'd watched the rain all morning: it's what cats and dogs do when it rains.
"We'll go out when it stops," thought the dog; the cat wasn't sure that it'd stop. In 1704 there was a book on light, and in 2019 another
one on words. The light of the sun, the words of the book, the sound of the rain on the roof."""

visible = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
hidden = [b for b in range(256) if b not in visible]
CHAR = {b: chr(b) for b in visible} | {b: chr(256 + i) for i, b in enumerate(hidden)}


def join(parts, two):
    out = []
    for p in parts:
        if out and (out[-1], p) == two:
            out[-1] = two[0] + two[1]
            out.append(None)  # what was joined is not joined again in this pass
        else:
            if out and out[-1] is None:
                out.pop()
            out.append(p)
    return [p for p in out if p is not None]


def learn():
    words = collections.Counter(tuple(CHAR[b] for b in w.encode()) for w in WORD.findall(TEXT))
    merges = []
    for _ in range(MERGES):
        pairs = collections.Counter()
        for w, n in words.items():
            for two in zip(w, w[1:]):
                pairs[two] += n
        best = min(pairs, key=lambda two: (-pairs[two], two))
        merges.append(best)
        words = collections.Counter({tuple(join(w, best)): n for w, n in words.items()})
    return merges


merges = learn()
tokens = [CHAR[b] for b in visible + hidden] + [a + b for a, b in merges] + ["<|endoftext|>"]
vocab = {t: i for i, t in enumerate(dict.fromkeys(tokens))}
ranks = {two: i for i, two in enumerate(merges)}


def encode(text):
    ids = []
    for w in WORD.findall(text):
        parts = [CHAR[b] for b in w.encode()]
        while len(parts) > 1:
            best = min(zip(parts, parts[1:]), key=lambda two: ranks.get(two, float("inf")))
            if best not in ranks:
                break
            parts = join(parts, best)
        ids += [vocab[p] for p in parts]
    return ids


if __name__ == "__main__":
    cases = [
        TEXT, "The cat sat on the", "", " ", "   ", "a", "  a", "   two  spaces ", "tabs\tand\n\nlines\n \n  x", "It's we'll they'd I'm you've we're don't 'tis 'S",
        "1704 and 2019, 3.14%", "x=1;y==2!!", "café naïve Ünïcode — “quotes”", "日本語のテキスト", "🙂 smile 🙂🙂", "½ ² Ⅷ", "a\u00a0b\u3000c", "\u00a0\u00a0a",
        "tttttt theeeee aaaa", "<|endoftext|>", "e\u0301", "trailing \n", "don't\u2019t",
    ]
    with open("vocab.json", "w") as f:
        json.dump(vocab, f, ensure_ascii=False)
    with open("merges.txt", "w") as f:
        f.write("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    with open("cases.json", "w") as f:
        json.dump([dict(text=t, ids=encode(t), words=[w.encode().hex() for w in WORD.findall(t)]) for t in cases], f)
