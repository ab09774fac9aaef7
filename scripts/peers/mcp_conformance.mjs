// Runs the conformance suite of MCP, which is called with the further arguments. It imports globSync, which Node.js has
// from version 22 on and which its scenarios for clients do not use.
import fs from "node:fs";
import { register } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, ...rest] = process.argv.slice(2);
const suite = `${modules}/@modelcontextprotocol/conformance/dist/index.js`;
const hook = `export async function load(url, context, next) {
  const file = await next(url, context);
  if (url.endsWith("/conformance/dist/index.js")) file.source = String(file.source).replace(/globSync as \\w+,/, "");
  return file;
}`;
if (!fs.globSync) register("data:text/javascript," + encodeURIComponent(hook));
process.argv = [process.argv[0], suite, ...rest];
await import(pathToFileURL(suite).href);
