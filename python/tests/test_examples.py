# SPDX-License-Identifier: MIT
"""The programs of examples/torch, as their own words say to run them."""

import os
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest
import torch
from ranks import free_port, run

import weft_sync.torch as weft

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run_example(name, size, *args):
    port, env = free_port(), {**os.environ, "PYTHONPATH": str(ROOT / "python"),
                              "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(size),
         "--master-port", str(port), str(ROOT / "examples" / "torch" / name), *args],
        env=env, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("args", [[], ["--method", "diloco", "--key", "mixer.outer_every=20"]])
def test_gpt_learns(args, tmp_path):
    text = tmp_path / "text"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 400)
    said = run_example("gpt.py", 2, "--steps", "60", "--text", str(text), "--batch", "2", *args)
    loss = float(re.search(r"loss on held-out text ([0-9.]+)", said)[1])
    kilobytes = float(re.search(r": ([0-9.]+) kB a step", said)[1])
    assert loss < 4.5 and kilobytes > 1, said


def figures(said):
    """The loss and the kilobytes of a program's last line, which also says what was hidden."""
    assert re.search(r"\d+ % of the exchange hidden", said), said
    assert float(re.search(r"([0-9.]+) kB a step sent by each", said)[1]) > 1, said
    return float(re.search(r"loss (?:on held-out sentences )?([0-9.]+)[^\n]*$", said.strip())[1])


@pytest.mark.parametrize("model,method,worst", [("resnet", "flexdemo", 1.2), ("vit", "hsdp", 1.2)])
def test_digits(model, method, worst):
    pytest.importorskip("sklearn")
    assert figures(run_example("digits.py", 2, "--model", model, "--method", method)) < worst


@pytest.mark.parametrize("args", [["--model", "resnet50", "--steps", "2", "--batch", "4"],
                                  ["--model", "vision_transformer", "--method", "hsdp"]])
def test_models_of_torchvision(args):
    pytest.importorskip("sklearn")
    pytest.importorskip("torchvision")
    assert figures(run_example("digits.py", 2, *args)) < (40 if "resnet50" in args else 1.5)


def test_unequal():
    said = run_example("unequal.py", 2)
    shares = {rank: int(n) for rank, n in re.findall(r"rank (\d): (\d+) of 80 rows", said)}
    assert shares["0"] + shares["1"] == 80 and shares["0"] > shares["1"], said


def test_tensor_parallel():
    said = run_example("tensor_parallel.py", 4)
    found = re.findall(r"one of 2 with its piece, loss ([0-9.]+), [1-9]\d* bytes", said)
    assert len(found) == 4 and len(set(found)) == 1 and float(found[0]) < 0.25, said


def test_t5_without_files():
    pytest.importorskip("transformers")
    assert figures(run_example("t5_translation.py", 2, "--steps", "30")) < 6


def test_accelerate():
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    assert figures(run_example("accelerate_gpt2.py", 2)) < 3.0


def test_t5_translates_numbers(tmp_path):
    pytest.importorskip("transformers")
    one, two = ("eins zwei drei vier fünf sechs sieben acht".split(),
                "one two three four five six seven eight".split())
    rows = [[(i * k + i // 7) % 8 for k in range(1, 5)] for i in range(400)]
    for name, words in ("de", one), ("en", two):
        (tmp_path / name).write_text("\n".join(" ".join(words[j] for j in r) for r in rows))
    files = ["--source", str(tmp_path / "de"), "--target", str(tmp_path / "en")]
    assert figures(run_example("t5_translation.py", 2, "--steps", "60", *files)) < 2.6


def by_lightning(folder):
    """A LightningModule whose configure_optimizers returns weft's; 12 batches are 6 steps, then the
    same from the checkpoint after the first epoch."""
    import lightning
    rank = int(os.environ["RANK"])
    data = torch.randn(24, 8, generator=torch.Generator().manual_seed(rank))

    class Net(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.net = torch.nn.Linear(8, 4)

        def training_step(self, rows):
            return torch.nn.functional.cross_entropy(self.net(rows), rows[:, :4].argmax(1))

        def configure_optimizers(self):
            self.inside = weft.Optimizer(self, method="flexdemo", lr=1e-2, accumulate=2,
                                         overlap=False)
            return self.inside

    def fit(epochs, **named):
        model = Net()
        trainer = lightning.Trainer(
            max_epochs=epochs, accelerator="cpu", devices=1, accumulate_grad_batches=2,
            gradient_clip_val=1.0, logger=False, enable_progress_bar=False,
            enable_model_summary=False, enable_checkpointing=False, default_root_dir=folder)
        trainer.fit(model, torch.utils.data.DataLoader(data, batch_size=4), **named)
        trainer.save_checkpoint(f"{folder}/{rank}.{epochs}")
        model.inside.close()
        return model.inside.report.step, [p.detach() for p in model.parameters()]
    fit(1)
    return fit(2), fit(2, ckpt_path=f"{folder}/{rank}.1")


def test_lightning(tmp_path):
    pytest.importorskip("lightning")
    found = [once for rank in run(by_lightning, 2, str(tmp_path)) for once in rank]
    assert all(steps == 6 for steps, _ in found), found
    assert all(torch.equal(p, q) for _, values in found for p, q in zip(values, found[0][1]))


def readme_lines():
    """The README's loop, as it stands there, around a model of one's own."""
    text = (ROOT / "README.md").read_text()
    block = re.search(r"```python\n(.*?)```", text, re.S)[1]
    rank = int(os.environ["RANK"])
    torch.manual_seed(0)
    model = torch.nn.Linear(40, 10)
    draw = torch.Generator().manual_seed(rank)
    x = torch.randn(200, 8, 40, generator=draw)
    space = {"model": model, "loss_function": torch.nn.functional.cross_entropy,
             "loader": [(rows, rows[:, :10].argmax(1)) for rows in x]}
    # ten times the rate, for a model of 400 numbers
    exec(compile(textwrap.dedent(block).replace("lr=4e-4", "lr=4e-3"), "README.md", "exec"), space)
    report = space["optimizer"].report
    return report.step, report.loss, [p.detach() for p in model.parameters()]


def test_the_readmes_lines():
    (steps, loss, a), (_, _, b) = run(readme_lines, 2)
    assert steps == 200 and loss < 2.0
    assert all(torch.equal(p, q) for p, q in zip(a, b))


def block_of_docs(words, change=lambda block: block):
    """The block of Python in docs/pytorch.md that has these words."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "pytorch.md").read_text(), re.S)
    found = [block for block in blocks if words in block]
    assert len(found) == 1, words
    return compile(change(found[0]), "docs/pytorch.md", "exec")


def test_the_pages_lines_about_measuring(tmp_path, monkeypatch, capsys):
    (tmp_path / "cluster.yaml").write_text(
        "nodes: 3\nwire: {bandwidth: 12.5MB/s, latency: 1ms}\n")
    monkeypatch.chdir(tmp_path)
    batches = [(torch.randn(n, 40), torch.randint(10, (n,))) for n in (4, 16)]
    exec(block_of_docs("measure_step"),
         {"model": torch.nn.Linear(40, 10), "small": batches[0], "large": batches[1],
          "loss_function": torch.nn.functional.cross_entropy})
    said = capsys.readouterr().out
    assert "muloco" in said and re.search(r"^full sync +3 ", said, re.M), said
    assert said.splitlines()[-1].startswith(("Stay on one node", "    weft.Optimizer(")), said


def checkpoint_lines(path):
    import torch.distributed as dist
    dist.init_process_group("gloo")
    model = torch.nn.Linear(6, 4)
    optimizer = weft.Optimizer(model, method="flexdemo", between="ranks")
    before = model.weight.detach().clone()
    exec(block_of_docs("weft.PerRank(optimizer)}, checkpoint_id"),
         {"model": model, "optimizer": optimizer, "path": path, "weft": weft})
    return torch.equal(model.weight, before), len(os.listdir(path))


def test_the_pages_lines_about_checkpoints(tmp_path):
    assert all(same and n > 1 for same, n in run(checkpoint_lines, 2, str(tmp_path / "at")))


def test_trainer_of_transformers():
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    said = run_example("hf_trainer.py", 2, "--steps", "30")
    assert re.search(r"[1-9][0-9.]* kB a step sent by each, \d+ % of the exchange hidden", said)
    assert float(re.search(r"mean loss of the run ([0-9.]+)", said)[1]) < 4.0, said


PAGES = ["docs/pytorch.md", "docs/using.md", "python/README.md", "README.md"]


def test_programs_of_the_pages_are_programs():
    for page in PAGES:
        for block in re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S):
            if block.startswith("    except"):  # the end of a loop's own try
                block = "for x in ():\n    try:\n        pass\n" + block
            compile(block, page, "exec")


def loops_of_the_page():
    """The loops of docs/pytorch.md as they stand there; "10_000" steps are three."""
    torch.manual_seed(0)
    draw = torch.Generator().manual_seed(int(os.environ["RANK"]))
    rows = [(x, x[:, :10].argmax(1)) for x in torch.randn(6, 8, 40, generator=draw)]

    class GPT(torch.nn.Linear):
        def __init__(self):
            super().__init__(40, 10)

        def forward(self, x, y=None):
            out = super().forward(x)
            return out if y is None else torch.nn.functional.cross_entropy(out, y)

    done = []
    rest = "".join(f"    {line}\n" for line in (  # of the loop that ends the page's third block
        "seen.append((number, processes))", "x, y = loader[optimizer.steps]", "model(x, y).backward()", "optimizer.step()",
        "schedule.step()"))
    seen: list = []
    for words in ("model = GPT()", 'agree="backward")', "optimizer.carry(schedule)"):
        model = GPT()
        space = {"GPT": GPT, "model": model, "loader": rows, "weft": weft, "torch": torch, "seen": seen,
                 "loss_function": torch.nn.functional.cross_entropy}
        code = block_of_docs(words, lambda text: text.replace("steps < 10_000", "steps < 3") + (
            rest if "while optimizer" in text else ""))
        exec(code, space)
        optimizer, model = space["optimizer"], space["model"]
        done.append((optimizer.steps, [p.detach().clone() for p in model.parameters()]))
        optimizer.close()
    return done, seen


def test_the_pages_loops():
    (a, seen), (b, also) = run(loops_of_the_page, 2)
    assert (seen, also) == ([(0, 2)] * 3, [(1, 2)] * 3)
    assert [steps for steps, _ in a] == [6, 6, 3]
    assert all(torch.equal(p, q) for (_, x), (_, y) in zip(a, b) for p, q in zip(x, y))


def test_the_pages_first_lines(capsys):
    exec(block_of_docs("step_seconds=0.46"), {"model": torch.nn.Linear(400, 10)})
    assert re.search(r"^one (node|process) +1 ", capsys.readouterr().out, re.M)
