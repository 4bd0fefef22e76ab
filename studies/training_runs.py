"""Published training runs as rows of kind `train_step`: one function a table, nothing fitted here.

Each names its `machine`, one for each kind of device, cluster and arithmetic: one machine is one
fit. What a table leaves open and is filled in here is said in its function.
"""

import re

import numpy as np
import pandas as pd
from frame import DATA

import scaleopt as so

AXES = {"tp": "tensor", "dp": "data", "pp": "pipeline", "cp": "context", "num_gpus": "devices"}
LLAMA = {"gated": 1, "fused_attention": 1, "kv_heads": 8, "vocab": 128256}
SHAPES = {
    "llama 8b": LLAMA | {"hidden": 4096, "heads": 32, "layers": 32, "feed_forward": 14336},
    "llama 70b": LLAMA | {"hidden": 8192, "heads": 64, "layers": 80, "feed_forward": 28672},
    "llama 405b": LLAMA | {"hidden": 16384, "heads": 128, "layers": 126, "feed_forward": 53248},
    "gpt 175b": {"hidden": 12288, "heads": 96, "layers": 96, "fused_attention": 1},
    "nemotron 15b": {"hidden": 6144, "heads": 48, "layers": 32, "kv_heads": 8, "vocab": 256000},
    "nemotron 340b": {"hidden": 18432, "heads": 96, "layers": 96, "kv_heads": 8, "vocab": 256000},
    "mpt 125m": {"hidden": 768, "heads": 12, "layers": 12},
    "mpt 350m": {"hidden": 1024, "heads": 16, "layers": 24},
    "mpt 760m": {"hidden": 1536, "heads": 12, "layers": 24},
    "mpt 1b": {"hidden": 2048, "heads": 16, "layers": 24},
    "mpt 3b": {"hidden": 2560, "heads": 20, "layers": 32},
    "mpt 7b": {"hidden": 4096, "heads": 32, "layers": 32},
    "mpt 13b": {"hidden": 5120, "heads": 40, "layers": 40},
    "mpt 30b": {"hidden": 7168, "heads": 56, "layers": 48},
    "mpt 70b": {"hidden": 8192, "heads": 64, "layers": 80},
}
"""Of the models that tables name only: as their publishers' configurations give them."""


def read(name: str) -> pd.DataFrame:
    """One published table."""
    return pd.read_csv(DATA / name, comment="#").rename(columns=AXES)


def shaped(rows: pd.DataFrame, model: pd.Series) -> pd.DataFrame:
    """Rows with the shape of the model that each names; a column already there stays."""
    shapes = pd.DataFrame([SHAPES[name] for name in model], index=rows.index)
    return rows.combine_first(shapes) if set(shapes) & set(rows) else rows.join(shapes)


def vtrain_node() -> pd.DataFrame:
    """Runs inside a node, of vTrain."""
    rows = read("shard_vtrain_singlenode_a100_1-8gpus.half.csv")
    return _vtrain(rows.assign(nodes=1))


def vtrain_large() -> pd.DataFrame:
    """Runs on 64 to 512 devices, of vTrain."""
    return _vtrain(read("shard_vtrain_multinode_a100_64-512gpus.half.csv"))


def _vtrain(rows: pd.DataFrame) -> pd.DataFrame:
    time = rows["iter_time_ms"] / 1e3
    return rows.assign(time_s=time, recompute="full", machine="A100")


def selene() -> pd.DataFrame:
    """Korthikanti et al. on Selene: full recomputation, or selective with sequences split."""
    rows = read("shard_korthikanti_selene_8-512gpus.csv")
    rows = rows.rename(columns={"batch": "global_batch", "iter_time_s": "time_s"})
    along = 1.0 * (rows["recompute"] == "seqsel")
    recompute = rows["recompute"].replace("seqsel", "selective")
    return rows.assign(sequence_parallel=along, recompute=recompute, machine="A100")


def bloom() -> pd.DataFrame:
    """The search for BLOOM's layout; width 14,336 in 112 heads where the table has none.

    Layers follow from the parameters, vocabulary 250,880.
    """
    rows = read("shard_bloom176b_a100_8-384gpus.csv")
    rows["sec_per_it"] = pd.to_numeric(rows["sec_per_it"], errors="coerce")
    rows = rows.dropna(subset=["sec_per_it", "gbs", "mbs", "data", "tensor", "pipeline"])
    hidden = rows["nhidden"].fillna(14336)
    size = rows["size"].str.rstrip("B").astype(float) * 1e9
    layers = ((size - 250880 * hidden) / (12 * hidden**2)).round()
    rows = rows.assign(
        **{"hidden": hidden, "heads": 112, "seq_len": 2048, "vocab": 250880, "machine": "A100"},
        layers=rows["layers"].fillna(layers),
        global_batch=rows["gbs"],
        micro_batch=rows["mbs"],
        devices=rows["data"] * rows["tensor"] * rows["pipeline"],
        time_s=rows["sec_per_it"],
        recompute="full",
    )
    whole = rows["global_batch"] % (rows["data"] * rows["micro_batch"]) == 0
    swapped = rows["source_line"] == 667
    kept = rows[whole & ~swapped & (rows["time_s"] > 0)]
    return kept.drop_duplicates(["devices", "data", "tensor", "layers", "micro_batch", "time_s"])


def mpt() -> pd.DataFrame:
    """MosaicML's MPT on FSDP, the batch of all devices in as many micro-batches as it says."""
    rows = read("scale_mosaic_mpt_a100_h100_8-512gpus.csv")
    rows = rows[rows["sharding_strategy"] == "FULL_SHARD"]
    return shaped(rows, "mpt " + rows["model"]).assign(
        vocab=50368,
        fused_attention=1,
        zero=3,
        seq_len=rows["seqlen_t"],
        data=rows["devices"],
        global_batch=rows["globalbatchsize"],
        micro_batch=rows["microbatchsize"],
        recompute=np.where(rows["activation_checkpointing"].astype(str) == "True", "full", "none"),
        time_s=rows["globalbatchsize_t"] / rows["throughput_t_s"],
        machine=rows["gpu"] + np.where(rows["precision"].str.contains("fp8"), " FP8", " BF16"),
    )


def megatron_core() -> pd.DataFrame:
    """Megatron-Core's weak scaling: micro-batches of one sequence, and no chunks, are assumed."""
    rows = read("shard_mcore_h100_weak_48-6144gpus.csv")
    rows = rows.rename(columns={"batch": "global_batch"})
    rows = rows.assign(seq_len=4096, vocab=131072, fused_attention=1, sequence_parallel=1)
    hidden, heads, layers = (rows[name].to_numpy() for name in ("hidden", "heads", "layers"))
    model = so.Transformer(hidden=hidden, heads=heads, layers=layers, seq_len=4096, vocab=131072)
    work = np.asarray(model.training_flops())
    time = rows["global_batch"] * work / (rows["agg_pflops"] * 1e15)
    return rows.assign(time_s=time, recompute="selective", machine="H100")


def megascale() -> pd.DataFrame:
    """MegaScale and the Megatron-LM it is held against: six chunks a stage, as its paper says."""
    rows = read("shard_megascale_strong_256-12288gpus.csv")
    rows = rows.rename(columns={"batch": "global_batch", "iter_time_s": "time_s"})
    rows = shaped(rows, pd.Series("gpt 175b", index=rows.index))
    return rows.assign(
        seq_len=2048,
        interleave=6,
        sequence_parallel=1,
        recompute="selective",
        machine=rows["system"],
    )


def internevo() -> pd.DataFrame:
    """InternEvo's 7B; optimizer states split over all devices, or over those of a node."""
    rows = read("scale_internevo_7b_a100_8-1024gpus.csv")
    batch = np.where(rows["tensor"] == 1, 2, 4)
    data = rows["devices"] / rows["tensor"]
    return rows.assign(
        **{"hidden": 4096, "heads": 32, "layers": 32, "seq_len": 2048, "vocab": 103168},
        **{"gated": 1, "feed_forward": 11008, "fused_attention": 1, "zero": 1},
        machine="A100, states " + np.where(rows["zero1"] < 0, "over all", "in a node"),
        data=data,
        micro_batch=batch,
        global_batch=4 * batch * data,
        sequence_parallel=1.0 * (rows["tensor"] > 1),
        time_s=4 * batch * 2048 / (rows["tensor"] * rows["tgs_tokens_per_gpu_s"]),
    )


def dgx_cloud() -> pd.DataFrame:
    """NVIDIA's reference step times whose title says how the model is split."""
    rows = read("shard_dgxc_llm-steptime_8-2304gpus.half.csv").rename(columns={"pp": "stages"})
    rows = rows.drop(columns="pipeline", errors="ignore").dropna(subset=["step_time_s"])
    titles = rows["title"].str.lower()
    models = {
        "llama 3.1 405b": "llama 405b",
        "llama 3.1 70b": "llama 70b",
        "llama 3.1 8b": "llama 8b",
        "nemo megatron": "gpt 175b",
        "nemotron4 15b": "nemotron 15b",
        "nemotron4 340b": "nemotron 340b",
    }
    model = titles.map(lambda title: next((m for key, m in models.items() if key in title), None))
    said = {
        name: titles.str.extract(rf"\b{key}=(\d+)")[0].astype(float)
        for name, key in {
            "tensor": "tp",
            "pipeline": "pp",
            "context": "cp",
            "interleave": "vp",
            "micro_batch": "mbs",
            "steps": "ga",
        }.items()
    }
    rows = rows.assign(**said)
    chosen = model.notna() & rows["tensor"].notna() & (rows["gpu"] == "H100")
    rows, model = rows[chosen], model[chosen]
    ways = rows["context"].fillna(1) * rows["tensor"] * rows["pipeline"].fillna(1)
    rows = rows.assign(data=rows["devices"] / ways, layers=rows["layers"])
    batch = rows["gbs"].fillna(rows["steps"] * rows["micro_batch"] * rows["data"])
    tokens = {"gpt 175b": 2048, "nemotron 15b": 4096, "nemotron 340b": 4096}
    rows = rows.assign(
        global_batch=batch,
        seq_len=model.map(tokens).fillna(8192),
        sequence_parallel=1.0 * (rows["tensor"] > 1),
        time_s=rows["step_time_s"],
        recompute="selective",
        zero=1,
        machine="H100 " + np.where(rows["title"].str.contains("FP8"), "FP8", "BF16"),
    )
    rows = shaped(rows, model)
    whole = (rows["data"] % 1 == 0) & (batch % (rows["data"] * rows["micro_batch"]) == 0)
    whole &= batch.notna() & (rows["data"] >= 1)
    named = ["title", "devices", "layers", "global_batch", "time_s"]
    return rows[whole].drop_duplicates(named)


def mlperf() -> pd.DataFrame:
    """MLPerf's runs whose split is known: GPT-3 and Llama 3.1, in FP8 or FP4 as submitted.

    Six chunks a stage are assumed for GPT-3, whose rows leave them blank.
    """
    rows = read("shard_mlperf_llm_steptime_8-11616gpus.half.csv")
    models = {"gpt3": "gpt 175b", "llama31_405b": "llama 405b", "llama31_8b": "llama 8b"}
    known = rows["benchmark"].isin(list(models)) & rows["tensor"].notna()
    rows = rows[known & rows["step_s_median"].notna() & rows["micro_batch"].notna()]
    rows = shaped(rows, rows["benchmark"].map(models))
    kind = rows["accelerator"].str.extract(r"\b(GB\d+|B\d+|H\d+|MI\d+)")[0]
    return rows.assign(
        devices=rows["num_accel"],
        global_batch=rows["global_batch_size"],
        interleave=rows["vp"].fillna(1).where(rows["benchmark"] != "gpt3", 6),
        sequence_parallel=1.0 * (rows["tensor"] > 1),
        time_s=rows["step_s_median"],
        zero=1,
        machine=kind,
    )


_SEQUENCES = re.compile(r"[Ll]ocal batch size (\d+)")


def torchtitan() -> pd.DataFrame:
    """Torchtitan's Llama runs in bfloat16 and float8, compiled, without pipeline."""
    rows = read("shard_torchtitan_llama3_8-512gpus.csv")
    keys = ["description", "row_key"]
    text = rows.pivot_table(index=keys, columns="metric", values="value", aggfunc="first")
    text = text.reset_index()
    speed = text["TPS/GPU"].fillna(text["Vanilla TP tokens/sec"])
    about = text["description"] + " " + text["row_key"]
    devices = about.str.extract(r"(\d+) (?:GPUs|H100s)")[0].astype(float)
    rows = pd.DataFrame(
        {
            "devices": devices,
            "tensor": about.str.extract(r"TP[= ](\d+)")[0].astype(float).fillna(1),
            "context": about.str.extract(r"CP (\d+)")[0].astype(float).fillna(1),
            "seq_len": pd.to_numeric(text["Sequence Length"]).fillna(8192),
            "micro_batch": about.str.extract(_SEQUENCES)[0].astype(float),
            "recompute": np.where(about.str.contains(r"[Ff]ull (?:AC|act)"), "full", "none"),
        }
    )
    ways = rows["tensor"] * rows["context"]
    rows["data"] = rows["devices"] / ways
    rows["global_batch"] = rows["data"] * rows["micro_batch"]
    per_device = rows["micro_batch"] * rows["seq_len"] / ways
    rows["time_s"] = per_device / pd.to_numeric(speed, errors="coerce")
    rows = rows.assign(sequence_parallel=1.0 * (rows["tensor"] > 1), zero=3)
    float8 = about.str.contains(r"[Ff]loat8 tensorwise|Float8|float8 rowwise")
    rows["machine"] = np.where(float8, "H100 FP8", "H100 BF16")
    model = about.str.extract(r"(8[Bb]|70[Bb]|405[Bb])")[0].str.lower()
    chosen = rows[["time_s", "micro_batch", "devices"]].notna().all(axis=1) & model.notna()
    chosen &= ~about.str.contains("PP") & ~about.str.contains("rowwise|Async")
    return shaped(rows[chosen], "llama " + model[chosen])
