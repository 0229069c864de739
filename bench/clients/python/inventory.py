"""Calls what inventory.json names with the openai package: once with defaults, once with each
option. The options are those of the package's own signatures, so that a new version adds rows.
It prints a row of JSON for each call; tests/clients/sdk_test.go makes a table of them."""

import base64
import inspect
import json
import os
import pathlib
import struct
import time
import types
import typing
import urllib.request
import zlib

import openai
import pydantic

WHAT = json.loads((pathlib.Path(__file__).parent.parent / "inventory.json").read_text())
COMMON = {"extra_headers", "extra_query", "extra_body", "timeout"}
last = {}


def note(response):
    last["left_out"] = response.headers.get("x-svc-left-out", "")


client = openai.OpenAI(
    base_url=os.environ["FAREBOX_URL"], api_key=os.environ["FAREBOX_KEY"], max_retries=0, timeout=30,
    http_client=openai.DefaultHttpxClient(event_hooks={"response": [note]}),
)


class Place(pydantic.BaseModel):
    city: str


def png() -> bytes:
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress((b"\0" + b"\x40\x80\xc0" * 256) * 256)
    head = struct.pack(">IIBBBBB", 256, 256, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def wav() -> bytes:
    data = bytes(32000)
    form = struct.pack("<IHHIIHH", 16, 1, 1, 16000, 32000, 2, 16)
    return b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " + form + b"data" + struct.pack("<I", len(data)) + data


PLACEHOLDERS = {
    "$SCHEMA": lambda: Place, "$PICTURE": lambda: ("a.png", png(), "image/png"), "$SOUND": lambda: ("a.wav", wav(), "audio/wav"),
    "$KEPT": lambda: client.responses.create(model="sim-chat-large", input="Keep this").id,
}


def filled(x, mark: str):
    if isinstance(x, str):
        return PLACEHOLDERS[x]() if x in PLACEHOLDERS else x.replace("{}", mark)
    if isinstance(x, dict):
        return {k: filled(v, mark) for k, v in x.items()}
    return [filled(v, mark) for v in x] if isinstance(x, list) else x


def value(method: str, option: str, annotation):
    parts = method.split(".")
    for end in range(len(parts), 0, -1):
        if (name := ".".join(parts[:end]) + " " + option) in WHAT["values"]:
            return WHAT["values"][name]
    return WHAT["values"].get(option, sample(annotation))


def sample(t):
    """A value of a type that nobody has chosen one for."""
    origin, args = typing.get_origin(t), typing.get_args(t)
    if origin in (typing.Required, typing.NotRequired, typing.Annotated):
        return sample(args[0])
    if origin is typing.Literal:
        return args[0]
    if origin in (typing.Union, types.UnionType):
        return sample(next(a for a in args if a is not type(None) and getattr(a, "__name__", "") != "Omit"))
    if typing.is_typeddict(t):
        return {k: sample(v) for k, v in typing.get_type_hints(t, include_extras=True).items() if k in t.__required_keys__}
    if origin is dict:
        return {"x": sample(args[1])}
    if origin is not None and args:
        return [sample(args[0])]
    return {int: 1, float: 0.5, bool: True}.get(t, "x")


def exhaust(result):
    """Takes all of an answer."""
    if hasattr(result, "__enter__") and not hasattr(result, "__iter__"):
        with result as stream:
            return exhaust(stream)
    if hasattr(result, "__iter__") and not isinstance(result, (pydantic.BaseModel, str, bytes)):
        for _ in result:
            pass


def sent(mark: str, option: str) -> bool:
    """Whether an option reached the server of the model, by the mark or as the last request."""
    for _ in range(3):  # a request is listed when its answer has ended
        with urllib.request.urlopen(os.environ["FAREBOX_SIM"] + "/_sim/last") as answer:
            bodies = [base64.b64decode(r["body"] or "") for r in json.load(answer)]
        body = next((b for b in reversed(bodies) if mark.encode() in b), bodies[-1] if bodies else b"")
        if f'"{option}"'.encode() in body or f'"{option}[]"'.encode() in body:
            return True
        time.sleep(0.1)
    return False


def call(method: str, option: str, arguments: dict, mark: str) -> str:
    found = client
    for name in method.split("."):
        found = getattr(found, name)
    try:
        arguments = filled(arguments, mark)
        last.clear()
        exhaust(found(**arguments))
    except openai.APIStatusError as e:
        body = e.response.json() if "json" in e.response.headers.get("content-type", "") else {}
        error = body.get("error", "") if isinstance(body, dict) else ""
        return f"{e.status_code}: " + (error.get("message", "") if isinstance(error, dict) else error)
    except Exception as e:  # of the package
        return f"the package: {type(e).__name__}: {e}"[:200]
    if last.get("left_out"):
        return "served without " + last["left_out"]
    here = any(option in names for prefix, names in WHAT["carried_out"].items() if method.startswith(prefix + "."))
    return "served" if not option or here or sent(mark, option) else "served, not sent on"


def main():
    count = 0

    def row(method, option, arguments) -> str:
        nonlocal count
        count += 1
        result = call(method, option, arguments, f"mark-{count:04d}")
        print(json.dumps({"method": method, "option": option, "result": result}), flush=True)
        return result

    for method, how in WHAT["methods"].items():
        needs = {**how.get("path", {}), **how.get("needs", {})}
        if method == "responses.parse":
            needs["text_format"] = "$SCHEMA"
        result = row(method, "", needs)
        if not result.startswith("served") or "type" not in how:
            continue
        found = client
        for name in method.split("."):
            found = getattr(found, name)
        parameters, hints = inspect.signature(found).parameters, typing.get_type_hints(found, include_extras=True)
        for option in parameters:
            if option in needs or option in COMMON or option in WHAT["left_out"] or f"{option} of {method}" in WHAT["left_out"]:
                continue
            names = [n for n in (option, *WHAT["with"].get(option, ())) if n in parameters]
            row(method, option, {**needs, **{n: value(method, n, hints.get(n)) for n in names}})


main()
