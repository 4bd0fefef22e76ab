"""Plans written down in TOML, model shapes from config.json, and the command."""

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scaleopt.cli import app
from scaleopt.planning.asking.model_config import read_model
from scaleopt.planning.asking.wish_list import plan_from_file

EXAMPLES = Path(__file__).parents[1] / "examples"
LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
}
GPT2 = {
    "model_type": "gpt2",
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "n_positions": 1024,
    "n_inner": None,
    "vocab_size": 50257,
}
MIXTRAL = LLAMA | {"model_type": "mixtral", "vocab_size": 32000, "num_local_experts": 8}
MIXTRAL |= {"num_experts_per_tok": 2}


@pytest.mark.parametrize(
    ("config", "published"),
    [(LLAMA, 8_030_261_248), (GPT2, 124_439_808), (MIXTRAL, 46_702_792_704)],
    ids=["Llama 3 8B", "GPT-2", "Mixtral 8x7B"],
)
def test_a_config_gives_the_published_parameters(config, published, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    # Float32 keeps seven digits.
    assert float(read_model(path).parameters()) == pytest.approx(published, rel=1e-6)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is no JSON"),
        ("[1]", "holds no JSON object"),
        ('{"hidden_size": 8}', "names no model_type, and is read for bert, bloom"),
        ('{"model_type": "llama", "hidden_size": 8}', "has no num_hidden_layers; is it a model's"),
        (json.dumps(LLAMA | {"model_type": "mamba2"}), "has model_type 'mamba2', and is read for"),
        (json.dumps(LLAMA | {"hidden_size": "8192"}), "hidden_size is '8192'; give a number"),
        (json.dumps(LLAMA | {"max_position_embeddings": None}), "has no max_position_embeddings"),
        (json.dumps(LLAMA | {"n_shared_experts": 1}), "experts that all tokens share"),
    ],
)
def test_a_config_that_cannot_be_is_refused(text, says, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises((ValueError, TypeError), match=says):
        read_model(path)


SMALL = """
[model]
hidden = 1024
layers = 8
heads = 8
seq_len = 1024
vocab = 32000
[run]
global_batch = 64
tokens = 1e9
deadline = "2 h"
[[offer]]
devices = 16
memory = "40 GB"
price = 2.0
[offer.machine]
rate = "200 TFLOP/s"
bandwidth = "1.5 TB/s"
alpha = "8 us"
link = "200 GB/s"
network = "20 GB/s"
"""


@pytest.fixture
def written(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(SMALL)
    return path


def test_quantities_come_out_in_si(written):
    offer = plan_from_file(written).searched[0].offer
    assert offer.price == pytest.approx(2 / 3600)
    assert offer.memory == 40e9
    assert float(offer.model.network_beta) == pytest.approx(1 / 20e9)


def call(*arguments):
    return CliRunner().invoke(app, ["plan", *map(str, arguments)])


def test_the_command_says_and_writes_the_plan(written, tmp_path):
    done = call(written, "--out", tmp_path / "best.csv")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("Best for time, of ")
    rows = (tmp_path / "best.csv").read_text().splitlines()
    assert rows[0].startswith("devices,global_batch,tensor,context,expert,pipeline")
    assert len(rows) == 101
    again = call(written, "--out", tmp_path / "best.csv")
    assert again.exit_code == 3
    front = call(written, "--json", "--pareto", "--out", tmp_path / "front.csv")
    best = json.loads(front.stdout)["best"]
    with (tmp_path / "front.csv").open() as file:
        first = next(csv.DictReader(file))
    assert float(first["time_s"]) == pytest.approx(best["time_s"])


def test_limits_that_nothing_keeps_have_an_exit_code_of_their_own(written):
    written.write_text(SMALL.replace("2 h", "1 s"))
    done = call(written)
    assert done.exit_code == 5
    assert "What would do, everything else kept:\n  deadline: " in done.stdout


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("[model]", "[modle]"), "does not know 'modle'"),
        (("hidden = 1024", ""), "[model] has no hidden"),
        (("hidden", "hiden"), "[model] does not know 'hiden'; it takes hidden, layers"),
        (("rate", "rat"), "[[offer]] 1 machine does not know 'rat'; it takes rate, bandwidth"),
        (('link = "200 GB/s"', ""), "[[offer]] 1 machine has no link, the bandwidth"),
        (("tokens = 1e9", "tokens = -1"), "tokens of the run: -1; give above 0"),
        (("[[offer]]", "[[offers]]"), "run.toml: the file does not know 'offers'"),
        (("global_batch = 64", ""), "[run] has no global_batch"),
        (('"2 h"', '"2 d"'), "[run]: deadline: the unit 'd' in '2 d' is unknown"),
        (('"40 GB"', '"40 GB/s"'), "[[offer]] 1: memory: '40 GB/s' is in B/s"),
        (("price", "prise"), "[[offer]] 1 does not know 'prise'"),
        (("[offer.machine]", "[offer.engine]"), "needs either a machine or a table"),
        (('rate = "200 TFLOP/s"', ""), "[[offer]] 1 machine has no rate"),
        (("devices = 16", ""), "[[offer]] 1 has no devices"),
        (("[run]", "[run"), "is no TOML"),
        (
            ("heads = 8", "heads = 9"),
            "Transformer: heads is 9; it must divide the hidden size 1024",
        ),
        (('"200 GB/s"', "200"), "machine: link is 200 B/s; write it with its unit, as '200 GB/s'"),
        (("heads = 8", "heads = 0"), "Transformer: heads is 0; it must be 1 or more"),
        (("hidden = 1024", 'hidden = "1k"'), "[model]: hidden is '1k'; give a number, or true"),
        (("hidden = 1024", "config = 3"), "[model]: config is 3; give a file's name"),
        (('"2 h"', "[2]"), "[run]: deadline is [2]; give a number in s, or text such as '25 s'"),
        (("price = 2.0", 'price = "2 USD"'), "price is '2 USD'; give a number, in USD a device"),
        (("price = 2.0", "price = -2"), "[[offer]] 1: price is -2 USD an hour; it must be 0"),
        (('"200 GB/s"', '"0 GB/s"'), "[[offer]] 1 machine: link is 0; it must be above 0"),
        (
            ("price = 2.0", "between_interruptions = 0"),
            "between_interruptions is 0; it must be above 0",
        ),
        (("[model]", "search = 3\n[model]"), "[search] is 3; it is a table"),
        (("devices = 16", 'devices = "16"'), "devices is '16'; give a whole number"),
        (
            ("[[offer]]", "[search]\nmax_context = 0.5\n[[offer]]"),
            "max_context is 0.5; give a whole",
        ),
    ],
)
def test_a_file_that_cannot_be_is_refused_with_its_place(written, change, says):
    written.write_text(SMALL.replace(*change))
    done = call(written)
    assert done.exit_code == 3
    assert says in done.stderr


def test_a_file_that_is_not_there(tmp_path):
    done = call(tmp_path / "absent.toml")
    assert done.exit_code == 3
    assert done.stderr == f"error: there is no file {tmp_path / 'absent.toml'}\n"


def test_a_file_that_cannot_be_written_is_refused_before_the_plan(written, tmp_path):
    done = call(written, "--out", written)
    assert done.exit_code == 3
    assert done.stderr == f"error: {written} exists and is not overwritten; choose another --out\n"
    done = call(written, "--out", tmp_path / "nowhere" / "best.csv")
    assert done.exit_code == 3
    assert done.stderr.startswith(f"error: there is no folder {tmp_path / 'nowhere'} for best.csv")


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.name)
def test_examples_have_a_plan(example):
    found = plan_from_file(example)
    assert found.best is not None
    assert found.best.memory <= 0.8 * found.best.offer.memory
