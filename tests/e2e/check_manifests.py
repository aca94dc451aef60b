#!/usr/bin/env python3
"""Check tools/containers: check_manifests.py FOLDER BUILD. Prints a line for each fault; status 1 if there is one.

The fields that Kubernetes' and the Prometheus Operator's schemas have at each place, as far as the manifests use
them, are written down below: a misspelt field, or one at a wrong place, is one that the API server would drop or
refuse. What must agree between the files is compared."""
import os
import re
import shlex
import subprocess
import sys

import yaml

STRINGS = {"*": str}
METADATA = {"name": str, "namespace": str, "labels": STRINGS, "annotations": STRINGS}
SELECTOR = {"matchLabels": STRINGS}
PROBE = {"httpGet": {"path": str, "port": str}, "initialDelaySeconds": int, "periodSeconds": int,
         "timeoutSeconds": int, "failureThreshold": int}
CONTAINER = {
    "name": str, "image": str, "imagePullPolicy": str, "args": [str],
    "ports": [{"name": str, "containerPort": int, "protocol": str}],
    "securityContext": {
        "privileged": bool, "allowPrivilegeEscalation": bool, "readOnlyRootFilesystem": bool, "runAsUser": int,
        "runAsGroup": int, "capabilities": {"drop": [str], "add": [str]}, "seccompProfile": {"type": str}},
    "livenessProbe": PROBE, "readinessProbe": PROBE,
    "resources": {"requests": STRINGS, "limits": STRINGS},
}
POD = {"hostPID": bool, "automountServiceAccountToken": bool, "enableServiceLinks": bool,
       "terminationGracePeriodSeconds": int, "nodeSelector": STRINGS,
       "tolerations": [{"operator": str, "key": str, "effect": str}], "containers": [CONTAINER]}
TOP = {"apiVersion": str, "kind": str, "metadata": METADATA}
KINDS = {
    ("v1", "Namespace"): TOP,
    ("apps/v1", "DaemonSet"): TOP | {"spec": {
        "selector": SELECTOR, "updateStrategy": {"type": str, "rollingUpdate": {"maxUnavailable": int}},
        "template": {"metadata": METADATA, "spec": POD}}},
    ("networking.k8s.io/v1", "NetworkPolicy"): TOP | {"spec": {
        "podSelector": SELECTOR, "policyTypes": [str],
        "ingress": [{"from": [{"namespaceSelector": SELECTOR}], "ports": [{"protocol": str, "port": int}]}]}},
    ("monitoring.coreos.com/v1", "PodMonitor"): TOP | {"spec": {
        "selector": SELECTOR,
        "podMetricsEndpoints": [{"port": str, "path": str, "interval": str, "relabelings": [
            {"sourceLabels": [str], "targetLabel": str, "regex": str, "action": str}]}]}},
}
INSTRUCTIONS = {"FROM", "WORKDIR", "COPY", "RUN", "EXPOSE", "ENTRYPOINT", "CMD"}
# Of the libc, which every image has.
ESSENTIAL = {"libc6", "libgcc-s1"}

faults = []


def check(condition, fault):
    if not condition:
        faults.append(fault)


def check_fields(value, schema, where):
    if isinstance(schema, dict):
        if not isinstance(value, dict):
            faults.append(f"{where}: is not a mapping")
            return
        for key, member in value.items():
            inner = schema.get(key, schema.get("*"))
            if inner is None:
                faults.append(f"{where}.{key}: no such field")
            else:
                check_fields(member, inner, f"{where}.{key}")
    elif isinstance(schema, list):
        if not isinstance(value, list):
            faults.append(f"{where}: is not a list")
            return
        for i, element in enumerate(value):
            check_fields(element, schema[0], f"{where}[{i}]")
    else:
        check(type(value) is schema, f"{where}: {value!r} is not of type {schema.__name__}")


def load(path):
    documents = {}
    with open(path, encoding="utf-8") as file:
        for document in yaml.safe_load_all(file):
            kind = document["apiVersion"], document["kind"]
            check(kind in KINDS, f"{path}: {kind}: not expected")
            check_fields(document, KINDS.get(kind, {}), f"{os.path.basename(path)}: {document['kind']}")
            documents[document["kind"]] = document
    return documents


def check_manifests(folder):
    objects = load(f"{folder}/daemonset.yaml") | load(f"{folder}/podmonitor.yaml")
    pod = objects["DaemonSet"]["spec"]["template"]
    labels = pod["metadata"]["labels"]
    container = pod["spec"]["containers"][0]
    port = container["ports"][0]
    namespace = objects["Namespace"]["metadata"]["name"]
    for kind in "DaemonSet", "NetworkPolicy", "PodMonitor":
        check(objects[kind]["metadata"]["namespace"] == namespace, f"{kind}: another namespace")
        spec = objects[kind]["spec"]
        selector = spec.get("podSelector") or spec["selector"]
        check(selector["matchLabels"].items() <= labels.items(), f"{kind}: selects other pods")
    args = container["args"]
    number = int(args[args.index("--listen") + 1].rpartition(":")[2])
    check(number == port["containerPort"], "daemonset.yaml: --listen and containerPort differ")
    check(pod["metadata"]["annotations"]["prometheus.io/port"] == str(number), "daemonset.yaml: prometheus.io/port")
    for rule in objects["NetworkPolicy"]["spec"]["ingress"]:
        check([p["port"] for p in rule["ports"]] == [number], "NetworkPolicy: another port")
    for probe in "livenessProbe", "readinessProbe":
        check(container[probe]["httpGet"] == {"path": "/healthz", "port": port["name"]}, f"daemonset.yaml: {probe}")
    endpoint = objects["PodMonitor"]["spec"]["podMetricsEndpoints"][0]
    check(endpoint["port"] == port["name"], "PodMonitor: another port")
    with open(f"{folder}/prometheus.yml", encoding="utf-8") as file:
        job = yaml.safe_load(file)["scrape_configs"][0]
    kept = {rule["source_labels"][0]: rule["regex"] for rule in job["relabel_configs"] if rule.get("action") == "keep"}
    check(kept == {"__meta_kubernetes_pod_label_app_kubernetes_io_name": labels["app.kubernetes.io/name"],
                   "__meta_kubernetes_pod_container_port_name": port["name"]}, "prometheus.yml: keeps other pods")
    check(job["kubernetes_sd_configs"] == [{"role": "pod", "namespaces": {"names": [namespace]}}],
          "prometheus.yml: kubernetes_sd_configs")
    security = container["securityContext"]
    check(security["readOnlyRootFilesystem"] and not security["allowPrivilegeEscalation"]
          and not security["privileged"] and security["capabilities"]["drop"] == ["ALL"]
          and pod["spec"]["hostPID"], "daemonset.yaml: securityContext")
    return number


def instructions(path):
    with open(path, encoding="utf-8") as file:
        lines = [line for line in file.read().splitlines() if not line.startswith("#")]
    text = "\n".join(lines).replace("\\\n", " ")
    return [line.split(None, 1) for line in text.splitlines() if line.strip()]


def output_of(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def libraries_of(program):
    """The libraries that PROGRAM names itself: apt brings what those need."""
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", output_of("readelf", "-dW", program)))
    return {path for name, path in re.findall(r"(\S+) => (\S+)", output_of("ldd", program)) if name in needed}


def packages_of(programs):
    libraries = set().union(*map(libraries_of, programs))
    # dpkg knows some by their paths before /lib became a link to /usr/lib.
    places = libraries | {"/usr" + path for path in libraries}
    owners = dict(line.split(": ")[::-1] for line in output_of("dpkg", "-S", *places).splitlines())
    for path in libraries:
        check(path in owners or "/usr" + path in owners, f"{path}: of no package")
    return {owner.split(":")[0] for owner in owners.values()}


def check_dockerfile(folder, build, port):
    root = os.path.dirname(os.path.dirname(folder))
    steps = instructions(f"{folder}/Dockerfile")
    for name, _ in steps:
        check(name in INSTRUCTIONS, f"Dockerfile: {name}: not expected")
    images = [rest.split(" AS ")[0] for name, rest in steps if name == "FROM"]
    check(images == ["debian:bookworm"] * 2, f"Dockerfile: images {images}")
    last = max(i for i, (name, _) in enumerate(steps) if name == "FROM")
    programs = set()
    for name, rest in steps:
        if name != "COPY":
            continue
        *sources, _ = rest.split()
        if sources[0].startswith("--from="):
            programs |= {os.path.basename(source) for source in sources[1:]}
        else:
            for source in sources:
                check(os.path.exists(f"{root}/{source}"), f"Dockerfile: {source}: no such file")
    check(programs == {"ocaml-probes", "ocaml-probes-serve", "ocaml-probes-top"}, f"Dockerfile: programs {programs}")
    install = next(rest for name, rest in steps[last:] if name == "RUN")
    words = shlex.split(install.split("&&")[1])
    named = {word for word in words[words.index("install") + 1:] if not word.startswith("-")}
    needed = packages_of([f"{build}/{program}" for program in programs]) - ESSENTIAL
    check(named == needed, f"Dockerfile: installs {sorted(named)}, the programs need {sorted(needed)}")
    check(["EXPOSE", str(port)] in steps, "Dockerfile: another port")


def main():
    folder, build = map(os.path.realpath, sys.argv[1:])
    check_dockerfile(folder, build, check_manifests(folder))
    print(*faults, sep="\n")
    sys.exit(bool(faults))


main()
