// Writes a .br and a .gz file beside each text file of the build, and asserts the size of the first page.
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const dist = new URL("../dist/", import.meta.url).pathname;
/** The most bytes of the whole first page, as brotli, and of the whole build. */
const LIMITS = { first: 60 * 1024, whole: 1.5 * 1024 * 1024 };
// The first page is all in the files that index.html names.

const files = readdirSync(dist, { recursive: true })
  .map((name) => join(dist, name))
  .filter((path) => statSync(path).isFile() && /\.(html|js|css|svg)$/.test(path));
const page = readFileSync(join(dist, "index.html"), "utf8");
let first = 0;
let whole = 0;
for (const path of files) {
  const text = readFileSync(path);
  const packed = brotliCompressSync(text, {
    params: { [constants.BROTLI_PARAM_QUALITY]: 11 },
  });
  writeFileSync(`${path}.br`, packed);
  writeFileSync(`${path}.gz`, gzipSync(text, { level: 9 }));
  whole += text.length;
  if (path.endsWith("index.html") || page.includes(path.slice(dist.length))) {
    first += packed.length;
  }
}
console.log(`first page ${first} bytes as brotli, whole build ${whole} bytes`);
if (first > LIMITS.first || whole > LIMITS.whole) {
  console.error("the build is larger than its limits");
  process.exit(1);
}
