#!/usr/bin/env python3
"""What is linked into `serving-bench` for TARGET: its licences (THIRD-PARTY.txt) and a CycloneDX list of parts (sbom.cdx.json).

notices.py TARGET FOLDER. It asks cargo which packages are linked, and reads the licence files of their sources and the checksums of Cargo.lock.
"""
import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
import uuid
from pathlib import Path

PACKAGE = "serving-bench"
LICENCE = re.compile(r"(licen[cs]e|copying|notice|unlicense|copyright)", re.IGNORECASE)
# sources that lie beside the library in a package and are not linked
UNLINKED = {"tests", "examples", "programs", "contrib", "benches", "vendor", "doc", "docs"}
BESIDES = """Besides the packages below
==========================

- the Rust standard library, MIT OR Apache-2.0, copyright The Rust Project Developers
- in the static programs: musl libc, MIT, copyright 2005-2025 Rich Felker and others; LLVM libunwind, Apache-2.0 WITH LLVM-exception
- in the pages: Apache ECharts, Apache-2.0, copyright 2017-2024 The Apache Software Foundation. This product includes software developed at
  The Apache Software Foundation (https://www.apache.org/).

The texts of MIT and Apache-2.0 are in LICENSE-MIT and LICENSE-APACHE; the LLVM exception permits to leave notices out of programs.
"""


def cargo(*arguments):
    return subprocess.run(["cargo", *arguments], check=True, capture_output=True, text=True).stdout


def linked(target):
    """(name, version) of all packages that the program is linked of; procedural macros and build scripts run, and stay behind."""
    tree = cargo(
        "tree", "--locked", "--package", PACKAGE, "--target", target, "--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}"
    )
    pairs = {tuple(line.split()[:2]) for line in tree.splitlines() if line.strip()}
    return {(name, version.removeprefix("v")) for name, version in pairs}


def licence_files(folder):
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if not UNLINKED & set(inside.parts[:-1]) and LICENCE.match(path.name) and path.is_file() and path.suffix != ".rs":
            # where both lie side by side (zstd), COPYING is the licence that was not chosen
            if not (path.name == "COPYING" and (path.parent / "LICENSE").exists()):
                yield inside, path.read_text(errors="replace").strip()


def third_party(packages):
    parts, seen = [BESIDES], {}
    for package in packages:
        head = f"{package['name']} {package['version']} ({package['license'] or 'see the files'})"
        parts.append(f"\n{head}\n{'=' * len(head)}\n")
        found = list(licence_files(Path(package["manifest_path"]).parent))
        if not found:
            by = ", ".join(package["authors"]) or "its authors"
            parts.append(f"by {by}; its package holds no licence file\n")
        for name, text in found:
            first = seen.setdefault(text, f"{head}, {name}")
            same = first != f"{head}, {name}"
            parts.append(f"{name}: the same text as in {first}\n" if same else f"--- {name}\n{text}\n")
    return "".join(parts)


def parts_list(packages, graph, target):
    locked = tomllib.loads(Path("Cargo.lock").read_text())["package"]
    sums = {(package["name"], package["version"]): package.get("checksum") for package in locked}
    url = {package["id"]: f"pkg:cargo/{package['name']}@{package['version']}" for package in packages}

    def part(package):
        entry = {
            "type": "application" if package["name"] == PACKAGE else "library",
            "bom-ref": url[package["id"]],
            "name": package["name"],
            "version": package["version"],
            "purl": url[package["id"]],
        }
        if package["license"]:
            # an old way to write OR
            entry["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        if checksum := sums.get((package["name"], package["version"])):
            entry["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        return entry

    components = [part(package) for package in packages]
    ours = next(component for component in components if component["name"] == PACKAGE)
    components.remove(ours)
    dependencies = [
        {"ref": url[node["id"]], "dependsOn": sorted({url[d["pkg"]] for d in node["deps"] if d["pkg"] in url and normal(d)})}
        for node in graph
        if node["id"] in url
    ]
    content = hashlib.sha256(json.dumps([target, components]).encode()).hexdigest()
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.UUID(content[:32], version=4)}",
        "version": 1,
        "metadata": {"component": ours, "properties": [{"name": "target", "value": target}]},
        "components": components,
        "dependencies": sorted(dependencies, key=lambda entry: entry["ref"]),
    }


def normal(dependency):
    return any(kind["kind"] is None for kind in dependency["dep_kinds"])


def main():
    target, out = sys.argv[1], Path(sys.argv[2])
    os.chdir(Path(__file__).parent.parent)
    told = json.loads(cargo("metadata", "--locked", "--format-version", "1", "--filter-platform", target))
    wanted = linked(target)
    packages = [package for package in told["packages"] if (package["name"], package["version"]) in wanted]
    packages.sort(key=lambda package: (package["name"], package["version"]))
    if len(packages) != len(wanted):
        sys.exit(f"cargo metadata and cargo tree do not agree: {len(packages)} and {len(wanted)} packages")
    theirs = [package for package in packages if package["source"]]
    out.mkdir(parents=True, exist_ok=True)
    (out / "THIRD-PARTY.txt").write_text(third_party(theirs))
    (out / "sbom.cdx.json").write_text(json.dumps(parts_list(packages, told["resolve"]["nodes"], target), indent=1) + "\n")


main()
