// Writes a .br and a .gz file beside each text file of the build, and asserts the sizes of the first page, of the editor and of the whole.
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const dist = fileURLToPath(new URL("../dist/", import.meta.url));
/** The most bytes of the whole first page and of the editor, as brotli, and of the whole build. */
const LIMITS = { first: 60 * 1024, editor: 170 * 1024, whole: 1.5 * 1024 * 1024 };
// The first page is all in the files that index.html names.

const files = readdirSync(dist, { recursive: true })
  .map((name) => join(dist, name))
  .filter((path) => statSync(path).isFile() && /\.(html|js|css|svg)$/.test(path));
const page = readFileSync(join(dist, "index.html"), "utf8");
const sizes = { first: 0, editor: 0, whole: 0 };
for (const path of files) {
  const text = readFileSync(path);
  const packed = brotliCompressSync(text, {
    params: { [constants.BROTLI_PARAM_QUALITY]: 11 },
  });
  writeFileSync(`${path}.br`, packed);
  writeFileSync(`${path}.gz`, gzipSync(text, { level: 9 }));
  sizes.whole += text.length;
  if (path.endsWith("index.html") || page.includes(path.slice(dist.length))) {
    sizes.first += packed.length;
  }
  // CodeMirror and what stands around it are one file, which no other page loads.
  if (/\/Editor-[^/]*\.js$/.test(path)) {
    sizes.editor += packed.length;
  }
}
console.log(`first page ${sizes.first} bytes as brotli, editor ${sizes.editor}, whole build ${sizes.whole} bytes as they are`);
const wrong = Object.entries(LIMITS).filter(([part, most]) => sizes[part] > most || sizes[part] === 0);
if (wrong.length > 0) {
  console.error(`larger than their limits, or missing: ${wrong.map(([part, most]) => `${part} (${most} bytes)`).join(", ")}`);
  process.exit(1);
}
