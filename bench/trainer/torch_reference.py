#!/usr/bin/python3
"""The recipe of `mltrain train` in PyTorch (Debian's python3-torch, or any since 1.13), to compare with.

  torch_reference.py rate  DIR [--steps N]                 images/s of training steps, after a warm-up
  torch_reference.py train DIR [--epochs N] [--seed N]     errors after every epoch
  torch_reference.py infer DIR [--steps N]                 images/s of predicting, after a warm-up
  all: [--threads N] [--batch N] [--layout nchw|nhwc] [--dtype f32|bf16] [--net reference|resnet-18]

bf16 is autocast's: products in bf16, parameters and their update in f32.

rate under mpirun trains on all ranks: the gradients, in one piece, summed by mpi4py's Allreduce.
"""
import argparse, contextlib, gzip, os, struct, time
import numpy as np
import torch, torch.nn as nn, torch.nn.functional as F
MPI = None
if int(os.environ.get("OMPI_COMM_WORLD_SIZE", 1)) > 1:
    from mpi4py import MPI


def idx(path):
    opener = open if os.path.exists(path) else gzip.open
    with opener(path if opener is open else path + ".gz", "rb") as f:
        b = f.read()
    dims = struct.unpack(">%di" % b[3], b[4:4 + 4 * b[3]])
    return np.frombuffer(b, np.uint8, offset=4 + 4 * b[3]).reshape(dims)


def load(directory, prefix):
    images = idx(f"{directory}/{prefix}-images-idx3-ubyte").astype(np.float32)
    labels = idx(f"{directory}/{prefix}-labels-idx1-ubyte").astype(np.int64)
    return (torch.from_numpy(images).unsqueeze(1) - 127.5) / 255, torch.from_numpy(labels)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 5, padding=2)
        self.conv2 = nn.Conv2d(32, 64, 5, padding=2)
        self.fc1 = nn.Linear(3136, 512)
        self.fc2 = nn.Linear(512, 10)
        for layer, bias in ((self.conv1, 0.0), (self.conv2, 0.1), (self.fc1, 0.1), (self.fc2, 0.1)):
            nn.init.trunc_normal_(layer.weight, std=0.1, a=-0.2, b=0.2)
            nn.init.constant_(layer.bias, bias)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.dropout(F.relu(self.fc1(x.flatten(1))), 0.5, self.training)
        return self.fc2(x)


class Block(nn.Module):
    def __init__(self, c, k, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(c, k, 3, stride, 1, bias=False), nn.BatchNorm2d(k)
        self.conv2, self.bn2 = nn.Conv2d(k, k, 3, 1, 1, bias=False), nn.BatchNorm2d(k)
        self.short = nn.Sequential() if stride == 1 else \
            nn.Sequential(nn.Conv2d(c, k, 1, stride, bias=False), nn.BatchNorm2d(k))

    def forward(self, x):
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + self.short(x))


def resnet_18():
    """src/mltrain/nets/resnet-18.json"""
    blocks = [Block(max(64, k // (1 if n else 2)), k, 1 if n or k == 64 else 2)
              for k in (64, 128, 256, 512) for n in range(2)]
    return nn.Sequential(nn.Conv2d(1, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(), *blocks,
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def make(layout):
    net = Net() if args.net == "reference" else resnet_18()
    if layout == "nhwc":
        net = net.to(memory_format=torch.channels_last)
    if args.net != "reference":
        return net, torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    dense = list(net.fc1.parameters()) + list(net.fc2.parameters())
    conv = list(net.conv1.parameters()) + list(net.conv2.parameters())
    return net, torch.optim.SGD([{"params": dense, "weight_decay": 5e-4}, {"params": conv}], lr=0.01, momentum=0.9)


def sum_gradients(net, world):
    parameters = list(net.parameters())
    flat = torch.cat([p.grad.flatten() for p in parameters])
    world.Allreduce(MPI.IN_PLACE, flat.numpy())
    flat /= world.size
    for p, g in zip(parameters, flat.split([p.numel() for p in parameters])):
        p.grad.copy_(g.view_as(p))


def arithmetic(dtype):
    return torch.autocast("cpu", dtype=torch.bfloat16) if dtype == "bf16" else contextlib.nullcontext()


def step(net, optimizer, x, y, a, world=None):
    if a.layout == "nhwc":
        x = x.contiguous(memory_format=torch.channels_last)
    optimizer.zero_grad(set_to_none=True)
    with arithmetic(a.dtype):
        logits = net(x)
    F.cross_entropy(logits.float(), y).backward()
    if world:
        sum_gradients(net, world)
    optimizer.step()


def infer(a, x, y):
    net, _ = make(a.layout)
    net.eval()
    x = torch.cat([x] * (a.batch // len(x) + 1))[:a.batch].contiguous()
    if a.layout == "nhwc":
        x = x.contiguous(memory_format=torch.channels_last)
    with torch.no_grad(), arithmetic(a.dtype):
        frozen = torch.jit.freeze(torch.jit.trace(net, x))
        for s in range(a.steps + 10):
            if s == 10:
                start = time.perf_counter()
            frozen(x)
    print(f"{a.steps * a.batch / (time.perf_counter() - start):.0f} images/s")


def error(net, x, y, dtype):
    net.eval()
    with torch.no_grad(), arithmetic(dtype):
        wrong = sum((net(x[i:i + 1000]).argmax(1) != y[i:i + 1000]).sum().item() for i in range(0, len(x), 1000))
    net.train()
    return 100 * wrong / len(x)


def rate(a, x, y):
    net, optimizer = make(a.layout)
    order = torch.randperm(len(x))
    world = MPI.COMM_WORLD if MPI else None
    rank, rows = (world.rank, a.batch // world.size) if world else (0, a.batch)
    warm_up = min(10, a.steps)
    for s in range(a.steps + warm_up):
        if s == warm_up:
            start = time.perf_counter()
        i = order[s * a.batch % (len(x) - a.batch) + rank * rows:][:rows]
        step(net, optimizer, x[i], y[i], a, world)
    if rank == 0:
        print(f"{a.steps * a.batch / (time.perf_counter() - start):.0f} images/s")


def train(a, x, y):
    vx, vy, x, y = x[:5000], y[:5000], x[5000:], y[5000:]
    tx, ty = load(a.data, "t10k")
    net, optimizer = make(a.layout)
    for epoch in range(a.epochs):
        for group in optimizer.param_groups:
            group["lr"] = 0.01 * 0.95 ** epoch
        order = torch.randperm(len(x))
        for s in range(len(x) // a.batch):
            i = order[s * a.batch:(s + 1) * a.batch]
            step(net, optimizer, x[i], y[i], a)
        print(f"epoch {epoch + 1} val error {error(net, vx, vy, a.dtype):.2f}% test error {error(net, tx, ty, a.dtype):.2f}%", flush=True)


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=("rate", "train", "infer"))
    p.add_argument("data")
    p.add_argument("--steps", type=int, default=300)
    p.add_argument("--epochs", type=int, default=10)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--layout", choices=("nchw", "nhwc"), default="nhwc")
    p.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    p.add_argument("--net", choices=("reference", "resnet-18"), default="reference")
    args = p.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    {"rate": rate, "train": train, "infer": infer}[args.what](args, *load(args.data, "train"))
