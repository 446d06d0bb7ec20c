"""state_dict.py FILE OUT RENAMES [TYPE]: a checkpoint's weights as safetensors.torch would write another program's.

RENAMES is a JSON object of layers and the modules that they become; "" for a layer to leave out. Statistics get
num_batches_tracked beside them. TYPE is F32, F16, BF16, F64, or "as-F16", "as-BF16": F32 with the values that these have.
"""
import json
import struct
import sys

path, out, renames, kind = (sys.argv + ["F32"])[1:5]
renames = json.loads(renames)
data = open(path, "rb").read()
(length,) = struct.unpack("<Q", data[:8])
header = json.loads(data[8 : 8 + length])
header.pop("__metadata__", None)
data = data[8 + length :]


def bfloat(v):
    """The upper half of a float, the nearest one."""
    (bits,) = struct.unpack("<I", struct.pack("<f", v))
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def packed(values):
    if kind == "BF16":
        return b"".join(struct.pack("<H", bfloat(v)) for v in values)
    if kind == "as-BF16":
        return b"".join(struct.pack("<I", bfloat(v) << 16) for v in values)
    if kind == "as-F16":
        return b"".join(struct.pack("<f", *struct.unpack("<e", struct.pack("<e", v))) for v in values)
    return struct.pack("<%d%s" % (len(values), {"F32": "f", "F16": "e", "F64": "d"}[kind]), *values)


tensors = {}
for name, entry in header.items():
    layer, part = name.rsplit(".", 1)
    module = renames.get(layer, layer)
    if "/" in name or not module:
        continue
    a, b = entry["data_offsets"]
    values = struct.unpack("<%df" % ((b - a) // 4), data[a:b])
    tensors[module + "." + part] = ("F32" if "-" in kind else kind, entry["shape"], packed(values))
    if part == "running_var":
        tensors[module + ".num_batches_tracked"] = ("I64", [], struct.pack("<q", 7))

# By the alignment of the type, then by name, as safetensors' own writer does it.
order = sorted(tensors, key=lambda n: (tensors[n][0] != "I64", n))
header, at = {}, 0
for name in order:
    size = len(tensors[name][2])
    header[name] = {"dtype": tensors[name][0], "shape": tensors[name][1], "data_offsets": [at, at + size]}
    at += size
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open(out, "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text + b"".join(tensors[n][2] for n in order))
