"""Makes the calls of calls.json with the client that openapi-python-client made, in the folder of the first argument."""
import importlib
import inspect
import json
import os
import pkgutil
import re
import sys
import typing

sys.path.insert(0, sys.argv[1])
import made.api
from made import AuthenticatedClient

client = AuthenticatedClient(base_url=os.environ["DESK_URL"], token=os.environ["DESK_TOKEN"], timeout=60)
modules, kept = {}, {"folder": os.environ["DESK_FOLDER"]}
for tag in pkgutil.iter_modules(made.api.__path__):
    package = importlib.import_module("made.api." + tag.name)
    for module in pkgutil.iter_modules(package.__path__):
        modules[module.name] = importlib.import_module(f"{package.__name__}.{module.name}")


def filled(value):
    """Names in brackets are what earlier answers had."""
    if isinstance(value, dict):
        return {k: filled(v) for k, v in value.items()}
    if isinstance(value, str):
        return re.sub(r"\[(\w+)\]", lambda m: kept.get(m[1], m[0]), value)
    return value


for call in json.load(open(os.path.join(sys.argv[1], "calls.json"))):
    function = modules[call["operation"]].sync_detailed
    known = inspect.signature(function).parameters
    arguments = {}
    for name, value in filled(call["arguments"]).items():
        name = re.sub(r"\W", "_", name).lower()
        arguments[name if name in known else name + "_"] = value
    if call["body"] is not None:
        kinds = [k for k in typing.get_args(known["body"].annotation) or [known["body"].annotation] if hasattr(k, "from_dict")]
        arguments["body"] = kinds[0].from_dict(filled(call["body"]))
    answer = function(client=client, **arguments)
    if answer.status_code.value != call["status"] or answer.parsed is None and not call["raw"]:
        print(call["operation"], "is answered", answer.status_code.value, answer.content[:500], answer.parsed)
    if call["keep"]:
        name, path = call["keep"].split("=")
        value = answer.parsed.to_dict()
        for step in path.split("."):
            value = value[step]
        kept[name] = str(value)
print("done")
