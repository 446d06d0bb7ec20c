"""onnx_check.py MODEL.onnx IMAGES LOGITS: ONNX's checker accepts the model, and ONNX Runtime gives these logits.

IMAGES holds bytes [n][c][h][w], LOGITS a line of numbers for each image.
"""
import sys

import numpy
import onnx
import onnxruntime

path, images, logits = sys.argv[1:]
model = onnx.load(path)
onnx.checker.check_model(model, full_check=True)
assert model.ir_version == 8 and [(o.domain, o.version) for o in model.opset_import] == [("", 17)]
assert not [n for n in model.graph.node if n.op_type == "Dropout"]

session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
(given,) = session.get_inputs()
assert given.name == "input" and given.shape[0] == "N", (given.name, given.shape)
assert [o.name for o in session.get_outputs()] == ["logits", "probabilities"]
x = numpy.fromfile(images, dtype=numpy.uint8).reshape([-1] + given.shape[1:]).astype(numpy.float32)
want = numpy.loadtxt(logits, ndmin=2)
for rows in (x, x[:1]):
    got, probabilities = session.run(None, {"input": rows})
    assert got.shape == (len(rows), want.shape[1])
    away = abs(got - want[: len(rows)]).max() / max(1, abs(want).max())
    assert away < 1e-4, f"logits differ by {away}"
    e = numpy.exp(got - got.max(axis=1, keepdims=True))
    assert abs(probabilities - e / e.sum(axis=1, keepdims=True)).max() < 1e-5
assert abs(want[0] - want[1]).max() > 1e-3, "the logits do not depend on the image"
print(f"{len(x)} images, largest logit {abs(want).max():.4g}, largest difference {away:.2g}")
