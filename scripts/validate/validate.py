"""Holds synthesized stacks to validators that others wrote: cfn-lint, checkov, cdk-nag and the ASL validator.

    validate.py NODE_MODULES ASSEMBLY...

An assembly is a folder that the CDK has written. A finding is accepted where the resource's metadata says so, with a
reason (infra/stacks/accepted.go). It fails for each finding that is not accepted, and for each accepted rule that no
validator finds any more.
"""

import glob
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOOLS = os.path.dirname(sys.executable)


def output(command, **more):
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=600, **more)
    if not ended.stdout.strip():
        sys.exit(f"{command[0]} said nothing: {ended.stderr[-2000:]}")
    return ended.stdout


def cfn_lint(templates):
    """Findings of cfn-lint, and the rules that were found but accepted: it is run without the acceptances, too."""
    seen = {}
    for file in templates:
        with open(file) as f:
            template = json.load(f)
        accepted = {
            (name, rule): True
            for name, r in template["Resources"].items()
            for rule in r.get("Metadata", {}).get("cfn-lint", {}).get("config", {}).get("ignore_checks", [])
        }
        for r in template["Resources"].values():
            r.get("Metadata", {}).pop("cfn-lint", None)
        bare = file + ".bare"
        with open(bare, "w") as f:
            json.dump(template, f)
        for one in json.loads(output([f"{TOOLS}/cfn-lint", "--format", "json", "--template", bare])):
            rule, path = one["Rule"]["Id"], one["Location"].get("Path") or []
            resource = path[1] if len(path) > 1 and path[0] == "Resources" else ""
            if (resource, rule) in accepted:
                seen["accepted " + rule] = True
            else:
                seen[f"finding {rule} {file} {resource}: {one['Message']}"] = True
        os.remove(bare)
    return list(seen)


def checkov(folder):
    report = json.loads(
        output([f"{TOOLS}/checkov", "--compact", "--framework", "cloudformation", "-o", "json", "-d", folder])
    )
    results = report["results"]
    if report["summary"]["passed"] == 0:
        return [f"finding checkov: nothing in {folder} was checked"]
    found = [f"accepted {c['check_id']}" for c in results.get("skipped_checks", [])]
    for c in results["failed_checks"]:
        found.append(f"finding {c['check_id']} {folder} {c['resource']}: {c['check_name']}")
    return found + [f"finding checkov {e}" for e in results.get("parsing_errors", [])]


def accepted(templates):
    """The rules that the metadata of some resource accepts, with a resource that does."""
    rules = {}
    for file in templates:
        with open(file) as f:
            resources = json.load(f)["Resources"]
        for name, r in resources.items():
            data = r.get("Metadata", {})
            listed = data.get("cdk_nag", {}).get("rules_to_suppress", []) + data.get("checkov", {}).get("skip", [])
            ignored = data.get("cfn-lint", {}).get("config", {}).get("ignore_checks", [])
            rules.update(dict.fromkeys([one["id"] for one in listed] + ignored, name))
    return rules


def main(modules, assemblies):
    templates = sorted(t for a in assemblies for t in glob.glob(f"{a}/*.template.json"))
    if not templates:
        sys.exit("there is no template")
    said = cfn_lint(templates)
    for a in assemblies:
        said += checkov(a)
    said += output(
        ["node", f"{HERE}/nag.js", *map(os.path.abspath, templates)], env={**os.environ, "NODE_PATH": modules}
    ).splitlines()
    findings = [line.removeprefix("finding ") for line in said if line.startswith("finding ")]
    used = {line.removeprefix("accepted ") for line in said if line.startswith("accepted ")}
    rules = accepted(templates)
    findings += [f"{rule} is accepted at {at}, and nothing finds it" for rule, at in rules.items() if rule not in used]
    for line in findings:
        print(line)
    print(f"{len(templates)} templates, {len(rules)} rules accepted with reasons, {len(findings)} findings unexplained")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]), sys.argv[2:])
