"""Complete what Maven has put where LocalStack 4.13 looks for its packages, so that it downloads nothing.

usage: place_jars.py <FILESYSTEM_ROOT>/var/lib/localstack/lib <java home>
"""
import pathlib, re, sys, zipfile

lib, java_home = map(pathlib.Path, sys.argv[1:3])

# LocalStack wants a Temurin 21 at lib/java/21; any JRE >= 17 does (DynamoDB Local 2.x needs 17).
(lib / "java").mkdir()
(lib / "java/21").symlink_to(java_home.resolve())

# DynamoDB Local: lib/dynamodb-local/2/{DynamoDBLocal.jar,DynamoDBLocal_lib/,ddb-local-loader-0.1.jar}. The first is a
# launcher: main class and class path, folded as the jar format asks.
d = lib / "dynamodb-local/2"
(loader,) = (d / "DynamoDBLocal_lib").glob("jamm-*")
loader.rename(d / "ddb-local-loader-0.1.jar")
jars = [f"DynamoDBLocal_lib/{f.name}" for f in sorted((d / "DynamoDBLocal_lib").glob("*.jar"))]
headers = ["Manifest-Version: 1.0", "Main-Class: com.amazonaws.services.dynamodbv2.local.main.ServerRunner",
           "Class-Path: " + " ".join(jars)]
with zipfile.ZipFile(d / "DynamoDBLocal.jar", "w") as z:
    z.writestr("META-INF/MANIFEST.MF", "".join("\r\n ".join(re.findall(".{1,70}", h)) + "\r\n" for h in headers) + "\r\n")
print("placed", len(jars), "DynamoDB jars under", lib.name)
