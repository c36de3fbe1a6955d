"""Private training beside opacus and jax-privacy: the same networks, lots and noise, steps per processor-second.

    sh bench/peers_setup.sh opacus jax_privacy
    python bench/sgd.py                      a quarter of an hour
    python bench/sgd.py --peers none         gapless alone

A network with one hidden layer foretells the last of 21 columns from the others, 100 inputs of 0 and 1; 30,000 rows.
Everybody runs the whole loop: draws Poisson lots, cuts each row's gradient to length 1, adds noise, takes a step of
Adam. One thread each. Peers get what suits them best: opacus both of its ways to compute lengths, from its own loader;
jax-privacy lots padded to one size and parts of 64 rows. Their noise is a float's; ours is exact and from the operating
system. Compiling and the first steps are not counted. A peer without an environment is named and left out.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
ENVS = Path(__file__).parent / "envs"
ROWS, COLUMNS, LEVELS, CLIP, STD = 30_000, 20, 5, 1.0, 2.0
CASES = {"64 hidden, lots of 512": (64, 512), "180 hidden, lots of 1,536": (180, 1536)}
RUNS = {
    "gapless": ["gapless"],
    "opacus": ["opacus hooks", "opacus ghost"],
    "jax_privacy": ["jax-privacy"],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", nargs="*", default=["opacus", "jax_privacy"])
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.run:
        hidden, batch_size = CASES[asked.case]
        print(json.dumps(TRAINERS[asked.run](hidden, batch_size, asked.steps)))
        return
    for case in CASES:
        found = {}
        for home, names in RUNS.items():
            python = sys.executable if home == "gapless" else str(ENVS / home / "bin" / "python")
            if home != "gapless" and home not in asked.peers:
                continue
            if not Path(python).exists():
                print(f"{home}: no environment, left out (sh bench/peers_setup.sh {home})")
                continue
            for name in names:
                times = [once(python, name, case, asked.steps) for _ in range(asked.repetitions)]
                found[name] = min(times, key=lambda run: run["processor_ms"])
        print_case(case, found)


def once(python, name, case, steps):
    """One run in a process of its own, with one thread."""
    command = [python, __file__, "--run", name, "--case", case, "--steps", str(steps)]
    environment = os.environ | dict.fromkeys(THREADS, "1") | {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def print_case(case, found):
    numbers = next(iter(found.values()))["numbers"]
    print(f"\n{case}: {numbers:,} parameters\n")
    print("| | processor ms a step | steps per processor-second | gapless is faster by |")
    print("|---|---:|---:|---:|")
    ours = found["gapless"]["processor_ms"]
    for name, run in found.items():
        ratio = "" if name == "gapless" else f"{run['processor_ms'] / ours:.1f}x"
        print(f"| {name} | {run['processor_ms']:.2f} | {1000 / run['processor_ms']:.0f} | {ratio} |")


def codes():
    """Public random rows; the label depends on a few of them."""
    import numpy as np

    rng = np.random.default_rng(0)
    given = rng.integers(0, LEVELS, (ROWS, COLUMNS)).astype(np.uint8)
    label = (given[:, :4].sum(axis=1) + rng.normal(0, 1, ROWS) > 8).astype(np.uint8)
    return given, label


def indicators():
    """The same as inputs of 0 and 1."""
    import numpy as np

    given, label = codes()
    inputs = np.zeros((ROWS, COLUMNS * LEVELS), dtype=np.float32)
    for column in range(COLUMNS):
        inputs[np.arange(ROWS), column * LEVELS + given[:, column]] = 1
    return inputs, label.astype(np.int64)


def timed(step, steps, warm=20):
    """Processor milliseconds for each of these steps, after some that are not counted."""
    for _ in range(warm):
        step()
    start = time.process_time()
    for _ in range(steps):
        step()
    return 1000 * (time.process_time() - start) / steps


def run_gapless(hidden, batch_size, steps):
    """Through the gate, ledger and all: a short training is taken from a long one, so that only steps are counted."""
    import polars as pl

    import gapless as gl
    from gapless.data.training import train
    from gapless.model.neural.descent import Adam, CosineSchedule, PredictionTask, PredictionTraining
    from gapless.model.neural.layers import Chain, Linear, ReLU

    given, label = codes()
    names = [f"x{column}" for column in range(COLUMNS)]
    levels = [str(level) for level in range(LEVELS)]
    columns = [*(gl.Categorical(name, levels) for name in names), gl.Categorical("y", ["0", "1"])]
    schema = gl.Schema("bench", columns)
    frame = pl.DataFrame({name: given[:, c].astype(str) for c, name in enumerate(names)} | {"y": label.astype(str)})
    cells = PredictionTask(given=tuple(range(COLUMNS)), sizes=(LEVELS,) * COLUMNS, targets=(COLUMNS,), cells=(2,))
    network = Chain((Linear(COLUMNS * LEVELS, hidden), ReLU(), Linear(hidden, 2)))
    optimizer = Adam(rate=CosineSchedule(rate=0.01, steps=steps))
    program = PredictionTraining(network=network, cells=cells, optimizer=optimizer, batch_size=float(batch_size))
    with tempfile.TemporaryDirectory() as folder:
        ledger, budget = Path(folder) / "bench.ledger", gl.Budget(100.0, 1e-6)
        table = gl.read(frame, schema, protect=gl.Rows(1), ledger=ledger, budget=budget)
        grant = table.ledger.grant(table.ledger.left, to="bench")

        def trained(many):
            spend = grant.left / 3
            start = time.process_time()
            train(table, program, grant, spend=spend, rate=batch_size / ROWS, steps=many, clip=CLIP, what="network")
            return time.process_time() - start

        trained(20)
        short, long = trained(20), trained(20 + steps)
    return {"processor_ms": 1000 * (long - short) / steps, "numbers": program.numbers}


def run_opacus(hidden, batch_size, steps, *, ghost):
    import warnings

    import opacus
    import torch

    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    inputs, label = indicators()
    data = torch.utils.data.TensorDataset(torch.from_numpy(inputs), torch.from_numpy(label))
    loader = torch.utils.data.DataLoader(data, batch_size=batch_size)
    network = torch.nn.Sequential(
        torch.nn.Linear(COLUMNS * LEVELS, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 2)
    )
    numbers = sum(weights.numel() for weights in network.parameters())
    loss = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    options = {"noise_multiplier": STD, "max_grad_norm": CLIP, "poisson_sampling": True}
    private = opacus.PrivacyEngine().make_private
    if ghost:
        network, optimizer, loss, loader = private(
            module=network, optimizer=optimizer, data_loader=loader, criterion=loss, grad_sample_mode="ghost", **options
        )
    else:
        network, optimizer, loader = private(module=network, optimizer=optimizer, data_loader=loader, **options)

    def batches():
        while True:
            yield from loader

    drawn = batches()

    def step():
        x, y = next(drawn)
        optimizer.zero_grad()
        loss(network(x), y).backward()
        optimizer.step()

    return {"processor_ms": timed(step, steps), "numbers": numbers}


def run_jax_privacy(hidden, batch_size, steps):
    import secrets

    import jax
    import jax.numpy as jnp
    import jax_privacy as jp
    import numpy as np
    import optax
    from jax_privacy import batch_selection, noise_addition

    inputs, label = indicators()
    keys = jax.random.split(jax.random.key(0))
    width = COLUMNS * LEVELS
    weights = {
        "a": jax.random.normal(keys[0], (width, hidden)) * width**-0.5,
        "b": jnp.zeros(hidden),
        "c": jax.random.normal(keys[1], (hidden, 2)) * hidden**-0.5,
        "d": jnp.zeros(2),
    }

    def loss(weights, x, y):
        outputs = jax.nn.relu(x @ weights["a"] + weights["b"]) @ weights["c"] + weights["d"]
        return optax.softmax_cross_entropy_with_integer_labels(outputs, y).mean()

    gradient = jp.clipped_grad(
        loss, l2_clip_norm=CLIP, batch_argnums=(1, 2), normalize_by=batch_size, microbatch_size=64
    )
    key = jax.random.wrap_key_data(np.frombuffer(secrets.token_bytes(8), np.uint32))
    noise = noise_addition.gaussian_privatizer(stddev=STD * gradient.sensitivity(), prng_key=key)
    adam = optax.adam(0.01)
    state = [weights, noise.init(weights), adam.init(weights)]
    padded = -(-(batch_size + 6 * int(batch_size**0.5)) // 64) * 64

    @jax.jit
    def updated(weights, noised, moments, x, y, padding):
        clipped = gradient(weights, x, y, is_padding_example=padding)
        clipped, noised = noise.update(clipped, noised)
        moves, moments = adam.update(clipped, moments, weights)
        return optax.apply_updates(weights, moves), noised, moments

    sampling = batch_selection.CyclicPoissonSampling(
        sampling_prob=batch_size / ROWS,
        iterations=steps + 100,
        truncated_batch_size=padded,
        partition_type=batch_selection.PartitionType.INDEPENDENT,
    ).batch_iterator(ROWS, rng=secrets.randbits(128))

    def step():
        rows = batch_selection.pad_to_multiple_of(next(sampling), padded)
        state[:] = updated(*state, inputs[rows], label[rows], rows == -1)
        jax.block_until_ready(state[0])

    return {"processor_ms": timed(step, steps), "numbers": sum(int(w.size) for w in weights.values())}


TRAINERS = {
    "gapless": run_gapless,
    "opacus hooks": lambda *given: run_opacus(*given, ghost=False),
    "opacus ghost": lambda *given: run_opacus(*given, ghost=True),
    "jax-privacy": run_jax_privacy,
}

if __name__ == "__main__":
    main()
