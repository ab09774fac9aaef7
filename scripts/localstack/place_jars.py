"""Put the jars from Maven Central where LocalStack 4.13 looks for its packages, so that it downloads nothing.

usage: place_jars.py <dynamodb jars> <jsonata jars> <FILESYSTEM_ROOT> <java home>
"""
import pathlib, shutil, sys, zipfile

ddb, jsonata, root, java_home = map(pathlib.Path, sys.argv[1:5])
lib = root / "var/lib/localstack/lib"

# 1) java: LocalStack wants a Temurin 21 at lib/java/21; any JRE >= 17 does (DynamoDB Local 2.x needs 17).
(lib / "java").mkdir(parents=True, exist_ok=True)
link = lib / "java/21"
if link.is_symlink() or link.exists():
    link.unlink()
link.symlink_to(java_home.resolve())

# 2) DynamoDB Local: lib/dynamodb-local/2/{DynamoDBLocal.jar,DynamoDBLocal_lib/,ddb-local-loader-0.1.jar}
d = lib / "dynamodb-local/2"
shutil.rmtree(d, ignore_errors=True)
(d / "DynamoDBLocal_lib").mkdir(parents=True)
names = []
for f in sorted(ddb.iterdir()):
    if f.name.startswith("jamm-"):
        shutil.copy(f, d / "ddb-local-loader-0.1.jar")
    else:
        shutil.copy(f, d / "DynamoDBLocal_lib" / f.name)
        if f.suffix == ".jar":
            names.append("DynamoDBLocal_lib/" + f.name)


def header(name, value):
    """One manifest header, folded at 72 bytes as the jar format asks."""
    s, out = f"{name}: {value}", []
    while s:
        n = 72 if not out else 71
        out.append(s[:n]); s = s[n:]
    return "\r\n ".join(out) + "\r\n"


with zipfile.ZipFile(d / "DynamoDBLocal.jar", "w") as z:  # a launcher: main class + class path
    z.writestr("META-INF/MANIFEST.MF",
               header("Manifest-Version", "1.0")
               + header("Main-Class", "com.amazonaws.services.dynamodbv2.local.main.ServerRunner")
               + header("Class-Path", " ".join(names)) + "\r\n")

# 3) JSONata for Step Functions: lib/jsonata/0.9.7/*.jar (marker: jsonata-0.9.7.jar)
j = lib / "jsonata/0.9.7"
shutil.rmtree(j, ignore_errors=True)
j.mkdir(parents=True)
for f in jsonata.iterdir():
    if f.suffix == ".jar":
        shutil.copy(f, j / f.name)
print("placed", len(names), "DynamoDB jars and", len(list(j.iterdir())), "JSONata jars under", lib.name)
