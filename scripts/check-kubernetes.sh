#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-kubernetes.sh - examples/kubernetes is sound, as far as that can be known without a cluster: the manifests are YAML in
# one style, ports and counts agree, variables and libraries are those that tally has, and the Dockerfile copies what is there.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v yamllint >/dev/null || { echo "SKIP: no yamllint (scripts/deps.sh test)" && exit 77; }
yamllint --strict -d '{extends: default, rules: {line-length: {max: 130}}}' examples/kubernetes/*.yaml
/usr/bin/python3 - <<'END'
import re
import sys

import yaml

PAGES = "".join(open(name, encoding="utf-8").read() for name in ("docs/man/tally.7", "docs/frameworks-mpi.md"))
faults = []
documents = list(yaml.safe_load_all(open("examples/kubernetes/mpijob.yaml", encoding="utf-8")))
kinds = {document["kind"]: document for document in documents}
if sorted(kinds) != ["Deployment", "MPIJob", "Service"] or kinds["MPIJob"]["apiVersion"] != "kubeflow.org/v2beta1":
    sys.exit(f"examples/kubernetes/mpijob.yaml: not a Service, a Deployment and an MPIJob of v2beta1: {sorted(kinds)}")
service, pod = kinds["Service"]["spec"], kinds["Deployment"]["spec"]["template"]
if service["selector"] != pod["metadata"]["labels"] or service["selector"] != kinds["Deployment"]["spec"]["selector"]["matchLabels"]:
    faults.append("the service finds no pod of the deployment")
ports = {(port["containerPort"], port["protocol"]) for port in pod["spec"]["containers"][0]["ports"]}
if ports != {(port["port"], port["protocol"]) for port in service["ports"]} or ports != {(7171, "TCP"), (7171, "UDP")}:
    faults.append(f"the ports are not tallyd's, on both sides: {ports}")
replicas = kinds["MPIJob"]["spec"]["mpiReplicaSpecs"]
command = replicas["Launcher"]["template"]["spec"]["containers"][0]["command"]
if int(command[command.index("-n") + 1]) != replicas["Worker"]["replicas"] * kinds["MPIJob"]["spec"]["slotsPerWorker"]:
    faults.append("mpirun's ranks are not the workers' slots")
given = dict(word.split("=", 1) for word in command if "=" in word)
for name in given:
    if name != "LD_PRELOAD" and name not in PAGES:
        faults.append(f"no page has {name}")
library = re.fullmatch(r"libtally-mpi-(\w+)\.so", given["LD_PRELOAD"])
if not library or f"'{library[1]}':" not in open("bindings/mpi/meson.build", encoding="utf-8").read():
    faults.append(f"no such library: {given['LD_PRELOAD']}")
if given["TALLY_AGGREGATOR"] != kinds["Service"]["metadata"]["name"]:
    faults.append("TALLY_AGGREGATOR is not the service")
lines = open("examples/kubernetes/Dockerfile", encoding="utf-8").read().replace("\\\n", "").splitlines()
known = {"FROM", "RUN", "COPY", "WORKDIR", "EXPOSE", "CMD"}
for line in lines:
    if line and not line.startswith("#") and line.split()[0] not in known:
        faults.append(f"Dockerfile: {line}")
stages = [line.split()[3] for line in lines if line.startswith("FROM") and " AS " in line]
if any("--from=" in line and re.search(r"--from=(\S+)", line)[1] not in stages for line in lines):
    faults.append("Dockerfile: it copies from a stage that there is not")
print("\n".join(faults) or "examples/kubernetes: sound, as far as that is known without a cluster")
sys.exit(bool(faults))
END
