"""QIIME 2 artifacts, made without QIIME 2."""

import zipfile

UUID = "6a6c4a1e-3f1c-4f0e-9a2b-0123456789ab"
NEWICK = "((a:1,b:1):1,c:1);"


def zipped(path, members, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def artifact(path, kind, member="tree.nwk", content=NEWICK, extra=(), method=zipfile.ZIP_STORED):
    members = {
        "VERSION": "QIIME 2\narchive: 5\nframework: 2024.10.1\n",
        "metadata.yaml": f"uuid: {UUID}\ntype: {kind}\nformat: F\n",
        "provenance/metadata.yaml": "type: Other\n",
        f"data/{member}": content,
    }
    inside = {f"{UUID}/{name}": text for name, text in members.items()}
    return zipped(path, inside | dict.fromkeys(extra, "x"), method)
