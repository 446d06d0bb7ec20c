"""What the comparisons have in common: PyTorch's tuning, programs of ours to be compiled, runs one after the
other in every round, and tables of their ratios."""
import os, re, resource, shutil, statistics, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
TORCH = ["/usr/bin/python3", HERE + "/torch_reference.py"]
TUNED = {"LD_LIBRARY_PATH": "/usr/lib/x86_64-linux-gnu/openblas-openmp", "ATEN_CPU_CAPABILITY": "avx512" if "avx512bw" in open("/proc/cpuinfo").read() else "avx2",
         "OMP_WAIT_POLICY": "active", "MALLOC_TOP_PAD_": "536870912", "MALLOC_MMAP_THRESHOLD_": "1073741824",
         "MALLOC_TRIM_THRESHOLD_": "-1"}
RATE = r"([\d.]+) images/s"


def cpu_times():
    """Ticks in which the machine's CPUs worked, and all ticks (proc(5), /proc/stat)."""
    with open("/proc/stat") as f:
        v = [int(x) for x in f.readline().split()[1:9]]
    return sum(v) - v[3] - v[4], sum(v)


def wait_for_quiet():
    while True:
        busy, ticks = cpu_times()
        time.sleep(1)
        now_busy, now_ticks = cpu_times()
        if now_busy - busy < 0.05 * (now_ticks - ticks):
            return


def own_ticks():
    r = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (r.ru_utime + r.ru_stime) * os.sysconf("SC_CLK_TCK")


def run(command, pattern, extra, quiet):
    """The number that a program prints. A run that others disturbed is made again when quiet is asked for."""
    while True:
        if quiet:
            wait_for_quiet()
        own, (busy, ticks) = own_ticks(), cpu_times()
        out = subprocess.run(command, env={**os.environ, **extra}, stdout=subprocess.PIPE, text=True, check=True).stdout
        own, (now_busy, now_ticks) = own_ticks() - own, cpu_times()
        if not quiet or now_busy - busy - own < 0.03 * (now_ticks - ticks):
            found = re.search(pattern, out)
            if not found:
                sys.exit(f"{command[0]}: no rate in what it printed: {out[-300:]}")
            return float(found[1])


def compiled(source, libraries, directory, flags=()):
    """The program made of a C source beside this file, or None, with a line that tells why."""
    program = os.path.join(directory, os.path.splitext(source)[0])
    if not shutil.which("cc"):
        print(f"{source}: left out, no C compiler", file=sys.stderr)
        return None
    got = subprocess.run(["cc", "-std=gnu11", "-O2", "-Wall", *flags, os.path.join(HERE, source), "-o", program, *libraries],
                         stderr=subprocess.PIPE, text=True)
    if got.returncode:
        print(f"{source}: left out: {next(iter(got.stderr.splitlines()), 'cc failed')}", file=sys.stderr)
        return None
    return program


def has_module(python, name):
    return subprocess.run([python, "-c", f"import {name}"], stderr=subprocess.DEVNULL).returncode == 0


def compare(title, trainers, rounds, quiet, unit="images/s"):
    """Run all trainers, (name, command, environment, pattern), once a round, and print the table of their rates; the
    first one's over each other's is the median of the rounds' ratios."""
    rates = []
    for r in range(rounds):
        rates.append([run(command, pattern, extra, quiet) for _, command, extra, pattern in trainers])
        said = ", ".join(f"{t[0]} {v:.0f}" for t, v in zip(trainers, rates[-1]))
        print(f"{title}, round {r + 1}: {said}", file=sys.stderr, flush=True)
    print(f"{title}, {rounds} rounds, {unit}\n")
    print(f"| program | median (min..max) | {trainers[0][0]}'s rate over it, median of rounds (min..max) |\n|---|---|---|")
    for i, (name, *_) in enumerate(trainers):
        v = [row[i] for row in rates]
        q = [row[0] / row[i] for row in rates]
        over = f"{statistics.median(q):.2f} ({min(q):.2f}..{max(q):.2f})" if i else ""
        print(f"| {name} | {statistics.median(v):.0f} ({min(v):.0f}..{max(v):.0f}) | {over} |")
    print(flush=True)


def scratch():
    return tempfile.TemporaryDirectory(prefix="mltrain-bench-")
