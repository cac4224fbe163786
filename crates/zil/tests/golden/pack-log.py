"""Packs one dataset's log out of a pool image: first blkptr, then (offset, length, bytes) of each block."""
import re, struct, sys
zdb_text, dataset, image, out = sys.argv[1:]
LABEL = 4 << 20
blocks, here = [], False
for line in open(zdb_text, "rb"):
    line = line.decode("latin1")
    if line.startswith("Dataset "):
        here = line.split()[1] == dataset
    if not here:
        continue
    m = re.search(r"Block seqno (\d+), .*?, DVA\[0\]=<(\d+):([0-9a-f]+):([0-9a-f]+)>.*size=([0-9a-f]+)L/.*birth=(\d+)L", line)
    if m:
        blocks.append((int(m[1]), int(m[3], 16), int(m[4], 16), int(m[5], 16), int(m[6])))
with open(image, "rb") as f, open(out, "wb") as o:
    def read(block):
        f.seek(block[1] + LABEL)
        return f.read(block[3])
    first = blocks[0]
    # The seed of the first block is that of the second, which the first names, one less.
    words = list(struct.unpack_from("<4Q", read(first), 8 + 96))
    words[3] -= 1
    assert words[3] == first[0]
    prop = (1 << 63) | (11 << 48) | (9 << 40) | (2 << 32) | ((first[3] // 512 - 1) << 16) | (first[3] // 512 - 1)
    bp = struct.pack("<16Q", first[2] // 512, first[1] // 512, 0, 0, 0, 0, prop, 0, 0, 0, first[4], 0, *words)
    o.write(bp)
    for block in blocks:
        data = read(block)
        used, magic = struct.unpack_from("<QQ", data, 136)
        if magic != 0x210DA7AB10C7A11 or used > len(data):
            continue  # allocated, never written
        o.write(struct.pack("<QI", block[1], used) + data[:used])
print(len(blocks), "blocks")
