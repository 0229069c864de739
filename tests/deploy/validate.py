"""Validates files of config/deploy: validate.py compose FILE, or validate.py kubernetes FILE…"""
import sys

import yaml

kind, files = sys.argv[1], sys.argv[2:]
for file in files:
    text = open(file, encoding="utf-8").read()
    if kind == "compose":
        from compose_spec import PyOptions

        compose = PyOptions(apply_merge=True).from_yaml(text)
        compose.validate()
        print(file, *compose.service_names())
        continue
    import kubernetes_validate

    for manifest in yaml.safe_load_all(text):
        # The oldest and the newest version that the package knows for certain.
        for version in ("1.30", "1.37"):
            kubernetes_validate.validate(manifest, version, strict=True)
        print(file, manifest["kind"], manifest["metadata"]["name"])
