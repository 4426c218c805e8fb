# SPDX-License-Identifier: MIT
"""python -m weft_sync.run: who begins, who joins by a code, and what of the command line is refused."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from ranks import free_port

import weft_sync

PACKAGE = pathlib.Path(weft_sync.__file__).resolve().parent.parent
WITHOUT = {"RANK", "WORLD_SIZE", "WEFT_JOIN", "WEFT_NODES", "WEFT_PORT", "WEFT_KEY_FILE"}


@pytest.fixture
def invitation(tmp_path, monkeypatch):
    """Of a run that is not there: what a joiner gets can be seen without one."""
    monkeypatch.chdir(tmp_path)
    for name in WITHOUT:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv(name, "")  # so that what `up` sets is taken back
        monkeypatch.delenv(name)
    try:
        made = weft_sync.up(free_port(), invite_port=free_port())
    except weft_sync.Error as error:
        pytest.skip(str(error))
    yield made
    made.close()


def start(folder, *words):
    env = {k: v for k, v in os.environ.items() if k not in WITHOUT}
    env["PYTHONPATH"] = os.pathsep.join([str(PACKAGE), *filter(None, [env.get("PYTHONPATH")])])
    return subprocess.Popen([sys.executable, "-m", "weft_sync.run", *map(str, words)], cwd=folder, env=env, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def ended(process, code=0):
    out, err = process.communicate(timeout=120)
    assert process.returncode == code, (process.returncode, out, err)
    return out, err


def script(folder, text):
    path = folder / "script.py"
    path.write_text(textwrap.dedent(text))
    return path


def test_each_process_reads_what_torchrun_would_say(tmp_path):
    path = script(tmp_path, """
        import os, sys
        names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "WEFT_NODES", "WEFT_NODE")
        print(" ".join([os.environ[n] for n in names] + sys.argv[1:]) + "\\n", end="")
        assert os.environ["WEFT_MASTER"].endswith(":" + os.environ["WEFT_PORT"])
        assert len(open(os.environ["WEFT_KEY_FILE"]).read().strip()) == 64
        """)
    out, err = ended(start(tmp_path, "--nproc-per-node", 2, path, "--lr", "1"))
    assert sorted(out.split("\n")) == ["", "0 0 2 2 1 0 --lr 1", "1 1 2 2 1 0 --lr 1"]
    assert re.search(r"--join \d\d-\w{4}-\w{4} script.py", err)
    assert (tmp_path / "runs" / "weft.key").stat().st_mode & 0o777 == 0o600


def test_who_fails_ends_the_others_of_its_machine(tmp_path):
    path = script(tmp_path, """
        import os, sys, time
        if os.environ["RANK"] == "1": sys.exit(3)
        time.sleep(100)
        """)
    begin = time.monotonic()
    ended(start(tmp_path, "--nproc-per-node", 2, path), 3)
    assert time.monotonic() - begin < 60


def test_a_signal_reaches_the_script(tmp_path):
    path = script(tmp_path, """
        import pathlib, signal, sys, time
        signal.signal(signal.SIGTERM, lambda *_: (print("saved", flush=True), sys.exit(0)))
        pathlib.Path("ready").touch()
        time.sleep(100)
        """)
    process = start(tmp_path, "--nproc-per-node", 1, path)
    while not (tmp_path / "ready").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert ended(process, 128 + signal.SIGTERM)[0] == "saved\n"


def test_who_joins_gets_the_key_and_the_way_and_comes_again(tmp_path, invitation):
    path = script(tmp_path, """
        import os, pathlib, sys
        print(os.environ["WEFT_JOIN"], open(os.environ["WEFT_KEY_FILE"]).read(), os.environ["WEFT_KEY_FILE"])
        if not pathlib.Path("second").exists():
            pathlib.Path("second").touch()
            sys.exit(9)
        """)
    at = f"127.0.0.1:{invitation.port}"
    key = pathlib.Path(invitation.key).read_text()
    out, err = ended(start(tmp_path, "--join", invitation.code, "--at", at, "--nproc-per-node", 1, "--max-restarts", 2,
                           path))
    assert out.count(f"127.0.0.1:{invitation.run_port} {key}") == 2
    assert "ended with 9; joining again in 1 s (1 of 2)" in err
    assert not pathlib.Path(out.split()[-1]).exists()  # the key does not stay
    (tmp_path / "second").unlink()
    out, _ = ended(start(tmp_path, "--join", invitation.code, "--at", at, "--nproc-per-node", 1, path), 9)
    assert out.count("127.0.0.1:") == 1  # by default it does not come again
    code = invitation.code[:-1] + ("0" if invitation.code[-1] != "0" else "1")
    _, err = ended(start(tmp_path, "--join", code, "--at", at, path), 1)
    assert len(err.strip().split("\n")) == 1 and "code" in err


@pytest.mark.parametrize("words,sentence", [
    (["--at", "h", "s.py"], "--at is for a machine that joins"),
    (["--wait", "3", "s.py"], "--wait is for a machine that joins"),
    (["--max-restarts", "3", "s.py"], "--max-restarts is for a machine that joins"),
    (["--join", "1", "--listen", "3", "s.py"], "--listen is for the machine that begins"),
    (["--join", "1", "--key", "k", "s.py"], "--key is for the machine that begins"),
    (["--listen", "70000", "s.py"], "--listen is 70000, expected 1 to 65535"),
    (["--nproc-per-node", "0", "s.py"], "--nproc-per-node is 0, expected at least 1"),
    (["nothere.py"], "there is no script nothere.py"),
    ([], "required: script")])
def test_what_would_not_count_is_refused(tmp_path, words, sentence, monkeypatch, capsys):
    from weft_sync import run
    monkeypatch.chdir(tmp_path)
    for name in WITHOUT:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "s.py").touch()
    with pytest.raises(SystemExit):
        run.main(words)
    assert sentence in capsys.readouterr().err


def test_under_torchrun_it_is_refused(tmp_path, monkeypatch, capsys):
    from weft_sync import run
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(SystemExit):
        run.main([__file__])
    assert "RANK is set already" in capsys.readouterr().err


LOOP = """
    import torch
    import weft_sync.torch as weft
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1)
    opt = weft.Optimizer(model, method="ddp", lr=1e-2, between="ranks")
    together = 0
    while together < 5:
        x = torch.randn(4, 8)
        loss = model(x).square().mean()
        loss.backward()
        together += opt.step(loss).processes == 2
        opt.zero_grad()
    print(opt.steps, model.weight.sum().item())
    """


def test_two_machines_train_by_two_lines(tmp_path):
    path, run, endpoint = script(tmp_path, LOOP), free_port(), free_port()
    first = start(tmp_path, "--nproc-per-node", 1, "--listen", run, "--invite-port", endpoint, path)
    line = first.stderr.readline()
    if "libsodium" in line:
        pytest.skip(line)
    code = re.search(r"--join (\S+)", line).group(1)
    second = start(tmp_path, "--nproc-per-node", 1, "--join", code, "--at", f"127.0.0.1:{endpoint}", path)
    assert ended(second)[0] == ended(first)[0]
