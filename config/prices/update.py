#!/usr/bin/env python3
"""Writes list.json.gz, the list of models and prices in the binary.

    python3 config/prices/update.py [VERSION [DATE [FILE]]]

It takes LiteLLM's list from its package on PyPI (MIT licence, the file
litellm/model_prices_and_context_window_backup.json) and keeps the models of vendors
in vendors.go: of those that write text or make embeddings the keys that list.go
reads, of others the name.
"""
import datetime, gzip, io, json, re, subprocess, sys, tempfile, zipfile
from pathlib import Path

HERE = Path(__file__).parent
FILE = "litellm/model_prices_and_context_window_backup.json"
KEYS = re.compile(
    r"^(litellm_provider|mode|max_(input_|output_)?tokens|deprecation_date|successor_model|reasoning_effort_levels"
    r"|supports_(function_calling|vision|pdf_input|response_schema|reasoning|audio_input|video_input|sampling_params"
    r"|(none|minimal|xhigh|max)_reasoning_effort)"
    r"|(input|output)_cost_per_(token|audio_token|image_token|video_token|reasoning_token)"
    r"|cache_(read|creation)_input_token_cost"
    r"|((input|output)_cost_per_token|cache_(read|creation)_input_token_cost)_above_\d+k_tokens"
    r"|tiered_pricing|output_cost_per_image|input_cost_per_(request|query|second))$")


def main():
    version = sys.argv[1] if len(sys.argv) > 1 else ""
    day = sys.argv[2] if len(sys.argv) > 2 else datetime.date.today().isoformat()
    target = Path(sys.argv[3]) if len(sys.argv) > 3 else HERE / "list.json.gz"
    providers = set(re.findall(r'Name: "([a-z_0-9]+)"', (HERE / "vendors.go").read_text()))
    with tempfile.TemporaryDirectory() as at:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", at,
                        "litellm" + ("==" + version if version else "")], check=True)
        wheel = next(Path(at).glob("litellm-*.whl"))
        version = wheel.name.split("-")[1]
        full = json.loads(zipfile.ZipFile(wheel).read(FILE), parse_float=str)
    kept = {"_": {"source": "litellm " + version, "date": day}}
    for name, entry in sorted(full.items()):
        provider = re.sub(r"^(vertex_ai)-.*|^(bedrock)_converse$", r"\1\2", entry.get("litellm_provider") or "")
        if provider in ("azure", "bedrock") and "/" in name.removeprefix("azure/"):
            continue  # a price of one region
        if provider not in providers or not entry.get("mode"):
            continue
        entry["litellm_provider"] = provider
        if entry["mode"] not in ("chat", "embedding"):  # known, so that nobody takes it for a model that writes
            entry = {"litellm_provider": provider, "mode": entry["mode"]}
            if "-x-" in name:  # one of the sizes of a picture
                name = name.split("/")[-1]
        kept[name] = {k: entry[k] for k in sorted(entry) if KEYS.match(k)}
    text = json.dumps(kept, separators=(",", ":"), sort_keys=True)
    # Prices are kept as they are written there, without a float between.
    text = re.sub(r'"(\d+(?:\.\d+)?(?:e-?\d+)?)"(?=[,}\]])', r"\1", text)
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", mtime=0, compresslevel=9) as z:
        z.write(text.encode())
    target.write_bytes(out.getvalue())
    print(f"{len(kept) - 1} of {len(full)} models of litellm {version}, {len(text)} bytes, {len(out.getvalue())} compressed")


main()
