"""Writes the .lzma files of this folder, with liblzma: python3 make.py. lzma_test.go makes the same texts.

NAME-LC-LP-PB.lzma is the text NAME with these parameters of the format."""
import lzma


def noise(n):
    x, out = 1, bytearray()
    for _ in range(n):
        x = (x * 1103515245 + 12345) & 0x7FFFFFFF
        out.append(x >> 16 & 0xFF)
    return bytes(out)


def words():
    return b"".join(b"add.f32 %%f%d, %%f%d, 0f%02X;\n" % (i, i * i % 97, b) for i, b in enumerate(noise(1500)))


TEXTS = {
    "empty": b"",
    "one": b"a",
    "zeros": bytes(100_000),
    "words": words(),
    "noise": noise(3000) * 2 + noise(300) * 3,
}

for name, text in TEXTS.items():
    for lc, lp, pb in [(3, 0, 0), (3, 0, 2), (0, 4, 4), (4, 0, 0), (1, 2, 1)]:
        one = {"id": lzma.FILTER_LZMA1, "preset": 9 | lzma.PRESET_EXTREME, "lc": lc, "lp": lp, "pb": pb}
        with open(f"{name}-{lc}-{lp}-{pb}.lzma", "wb") as f:
            f.write(lzma.compress(text, lzma.FORMAT_ALONE, filters=[one]))
