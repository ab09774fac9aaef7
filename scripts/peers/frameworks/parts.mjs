// The parts of a framework's story. Each prints a line NAME=VALUE, or NAME=failed: WHY.
//
// A story is run as `node STORY.mjs NODE_MODULES URL KEY`.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

export const [folder, url, key] = process.argv.slice(2);
export const model = "Forecaster";
const require = createRequire(folder + "/");

/** Imports a package of the folder NODE_MODULES. */
export const modules = (name) => import(pathToFileURL(require.resolve(name)).href);

/** Runs a part and prints what it returns. */
export async function part(name, does) {
  let value;
  try {
    value = await does();
  } catch (e) {
    value = `failed: ${e.name} ${e.message}`;
  }
  console.log(`${name}=${String(value).replace(/\s+/g, " ").trim().slice(0, 300)}`);
}
