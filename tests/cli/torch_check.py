"""torch_check.py make FILE IMAGES LOGITS: a residual network of PyTorch's with random weights and statistics, in its own
names, images [n][3][12][20] of bytes, and its logits, a line for each image.
torch_check.py load FILE LOGITS: the same network with the weights of FILE, on the same images, has these logits."""
import sys

import torch
from safetensors.torch import load_file, save_file
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 5, stride=2, padding=2), nn.BatchNorm2d(8), nn.ReLU())
        self.body = nn.ModuleList([nn.Conv2d(8, 8, 3, padding=1, bias=False) for _ in range(2)])
        self.norm = nn.ModuleList([nn.BatchNorm2d(8) for _ in range(2)])
        self.head = nn.Sequential(nn.Linear(8 * 3 * 5, 20), nn.ReLU(), nn.Dropout(), nn.Linear(20, 7))

    def forward(self, x):
        x = first = self.stem(x)
        for conv, norm in zip(self.body, self.norm):
            x = torch.relu(norm(conv(x)))
        return self.head(torch.flatten(nn.functional.max_pool2d(x + first, 2), 1))


def images():
    return torch.randint(0, 256, (5, 3, 12, 20), dtype=torch.uint8)


def logits(net, bytes_):
    mean, std = torch.tensor([0.5, 0.4, 0.3]).view(3, 1, 1), torch.tensor([0.2, 0.25, 0.3]).view(3, 1, 1)
    return net.eval()((bytes_ / 255.0 - mean) / std)


torch.manual_seed(1)
net, bytes_ = Net(), images()
if sys.argv[1] == "make":
    for _ in range(3):  # running statistics that are like no others
        net.train()(torch.randn(4, 3, 12, 20) + 1)
    save_file(net.state_dict(), sys.argv[2])
    bytes_.numpy().tofile(sys.argv[3])
    with open(sys.argv[4], "w") as f:
        for row in logits(net, bytes_).tolist():
            print(*("%.9g" % v for v in row), file=f)
else:
    net.load_state_dict(load_file(sys.argv[2]))
    want = torch.tensor([[float(v) for v in line.split()] for line in open(sys.argv[3])])
    away = (logits(net, bytes_) - want).abs().max().item()
    assert away < 1e-5 * max(1, want.abs().max().item()), f"logits differ by {away}"
    print(f"{len(want)} images, largest difference {away:.2g}")
