// The view of an author in an editor: the schemas of this repository in the real yaml-language-server, which editors such
// as VS Code, Neovim, Helix and Zed run. `make editor-check` installs it and says where it is.

import assert from "node:assert/strict";
import { cp, mkdtemp, readFile, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";

import { Session } from "./session.mjs";

const REPOSITORY = fileURLToPath(new URL("../..", import.meta.url));
const SERVER = process.env.YAML_LANGUAGE_SERVER;
/** Where the cursor stands in a text. */
const CURSOR = "¦";

let project;
let session;
let opened = 0;

before(async () => {
  assert.ok(SERVER, "YAML_LANGUAGE_SERVER is not set; run `make editor-check`");
  project = await mkdtemp(path.join(tmpdir(), "cogwork-editor-"));
  await cp(path.join(REPOSITORY, "schemas"), path.join(project, "schemas"), { recursive: true });
  session = await Session.start(SERVER, project);
});

after(async () => {
  await session?.stop().catch(() => session.kill());
  await rm(project, { recursive: true, force: true });
});

/** Opens a text as a file bound to a schema, and gives its address and where the cursor stands. */
async function open(text, schema = "automation") {
  const whole = `# yaml-language-server: $schema=../schemas/${schema}.schema.json\n${text}`;
  const [before] = whole.split(CURSOR);
  const lines = before.split("\n");
  const uri = pathToFileURL(path.join(project, `${schema}s`, `file${opened++}.yaml`)).href;
  session.open(uri, whole.replace(CURSOR, ""));
  return { uri, position: { line: lines.length - 1, character: lines.at(-1).length } };
}

/** The completions at the cursor, by label. */
async function offered(text, schema) {
  const { uri, position } = await open(text, schema);
  const items = await session.completion(uri, position);
  session.close(uri);
  return new Map(items.map((item) => [item.label, item]));
}

async function hover(text, schema) {
  const { uri, position } = await open(text, schema);
  const shown = await session.hover(uri, position);
  session.close(uri);
  return shown;
}

/** The diagnostics of a text: `line:column message`, both from 1, the line of the schema not counted. */
async function problems(text, schema) {
  const { uri } = await open(text, schema);
  const found = await session.diagnostics(uri);
  session.close(uri);
  return found.map(({ range: { start }, message }) => `${start.line}:${start.character + 1} ${message}`);
}

function has(offers, ...labels) {
  const missing = labels.filter((label) => !offers.has(label));
  assert.deepEqual(missing, [], `not offered; there are ${[...offers.keys()].join(", ")}`);
}

function documentation(item) {
  return item.documentation?.value ?? item.documentation ?? "";
}

const MANUAL = "trigger: {manual: {}}\nsteps:\n";

test("the keys of a file are offered", async () => {
  const offers = await offered(CURSOR);
  has(offers, "id", "name", "trigger", "inputs", "configVars", "steps", "outputs", "onError", "finally", "concurrency");
  assert.match(documentation(offers.get("configVars")), /\w+/);
  has(await offered(`trigger:\n  ${CURSOR}`), "webhook", "schedule", "manual");
});

test("the verbs and the keys of every step are offered", async () => {
  for (const steps of [`  - ${CURSOR}`, `  - id: a\n    ${CURSOR}`, `  - forEach: [1]\n    steps:\n      - ${CURSOR}`]) {
    const offers = await offered(MANUAL + steps);
    has(offers, "action", "set", "switch", "forEach", "repeat", "parallel", "call", "wait", "waitFor", "respond", "stop");
    has(offers, "if", "needs", "retry", "timeout", "onError", "undo");
  }
});

test("the names of actions are offered, each with what it does", async () => {
  const offers = await offered(`${MANUAL}  - action: ${CURSOR}`);
  has(offers, "wiki.createPage", "wiki.rawGraphqlRequest", "http.request", "log.info", "text.split", "state.get");
  assert.match(documentation(offers.get("wiki.createPage")), /Creates a page in a space\. Gives the page\./);
});

test("a step of an action is offered what that action takes, explained", async () => {
  const step = `${MANUAL}  - action: wiki.listPages\n    `;
  const keys = await offered(`${step}${CURSOR}`);
  has(keys, "with", "connection", "retry");
  assert.ok(!keys.has("then"), "a key of another verb");

  const inputs = await offered(`${step}with:\n      ${CURSOR}`);
  has(inputs, "limit", "cursor", "spaceId", "sort", "status", "title", "bodyFormat");
  assert.ok(!inputs.has("pageId"), "an input of another action");
  assert.match(documentation(inputs.get("limit")), /The most results in one answer\. \(whole number from 1 to 250\)/);
  assert.match(inputs.get("limit").insertText, /^limit: .*25/, "with its default");

  has(await offered(`${step}with:\n      sort: ${CURSOR}`), "id", "-created-date", "title");
  has(await offered(`${step}connection: ${CURSOR}`), "mainWiki");
  const body = `${MANUAL}  - action: wiki.createPage\n    with:\n      body:\n        ${CURSOR}`;
  has(await offered(body), "representation", "value");
});

test("keys, actions and inputs are explained where the mouse is", async () => {
  assert.match(await hover(`${MANUAL}  - action: log.info\n    ret${CURSOR}ry: 3\n`), /How often a failed step is tried again/);
  assert.match(await hover(`${MANUAL}  - action: wiki.get${CURSOR}Page\n`), /`wiki\.getPage`: Get Page\. Gives the page\./);
  const input = `${MANUAL}  - action: wiki.listPages\n    with: {lim${CURSOR}it: 3}\n`;
  assert.match(await hover(input), /The most results in one answer/);
});

test("a misspelt key is told at its place", async () => {
  const text = `${MANUAL}  - action: log.info\n    retyr: 3\n    with: {message: a}\n`;
  assert.deepEqual(await problems(text), ["4:5 Property retyr is not allowed."]);
  assert.deepEqual(await problems(`${MANUAL}  - set: {a: 1}\ntimout: 5m\n`), ["4:1 Property timout is not allowed."]);
});

test("an input that is misspelt, missing or wrong is told at its place", async () => {
  const list = (inputs) => `${MANUAL}  - action: wiki.listPages\n    connection: mainWiki\n    with: {${inputs}}\n`;
  assert.deepEqual(await problems(list("limit: 5, spaceId: '1'")), []);
  assert.deepEqual(await problems(list("limit: '${{ inputs.n }}'")), []);
  assert.deepEqual(await problems(list("limt: 5")), ["5:12 Property limt is not allowed."]);
  assert.deepEqual(await problems(list("limit: 999")), ["5:19 Value is above the maximum of 250."]);
  assert.deepEqual(await problems(list("sort: newest")).then((found) => found.length), 1);
  const needy = `${MANUAL}  - action: wiki.getPage\n    connection: mainWiki\n    with: {}\n`;
  assert.deepEqual(await problems(needy), ['5:5 Missing property "pageId".']);
});

test("an action that no connector has is told, one of an unknown connector is not", async () => {
  const [problem, ...more] = await problems(`${MANUAL}  - action: wiki.createPag\n`);
  assert.match(problem, /^3:13 Value is not accepted\. Valid values: .*"wiki\.createPage"/);
  assert.deepEqual(more, []);
  assert.deepEqual(await problems(`${MANUAL}  - action: shop.createOrder\n    with: {anything: 1}\n`), []);
});

test("nothing is wrong with the examples", async () => {
  for (const [folder, schema] of [["automations", "automation"], ["connections", "connection"]]) {
    for (const name of await readdir(path.join(REPOSITORY, folder))) {
      if (!name.endsWith(".yaml")) continue;
      const text = await readFile(path.join(REPOSITORY, folder, name), "utf8");
      assert.deepEqual(await problems(text, name.endsWith(".test.yaml") ? "test" : schema), [], `${folder}/${name}`);
    }
  }
});

test("a file of tests is completed and checked", async () => {
  has(await offered(CURSOR, "test"), "automation", "doubles", "tests");
  const found = await problems("tests:\n  - name: a\n    exepct: {outcome: succeeded}\n", "test");
  assert.deepEqual(found, ["3:5 Property exepct is not allowed."]);
});

test("a connection is offered what its type takes", async () => {
  has(await offered(`type: ${CURSOR}`, "connection"), "wiki.basic", "http.bearer");
  const inputs = await offered(`type: wiki.basic\nwith:\n  ${CURSOR}`, "connection");
  has(inputs, "email", "apiToken", "host");
  assert.match(documentation(inputs.get("apiToken")), /token/);
  const wrong = "type: http.bearer\nwith: {baseUrl: 'https://a.example', tokn: b}\n";
  const said = await problems(wrong, "connection");
  assert.ok(said.includes("2:38 Property tokn is not allowed."), said.join("\n"));
});

test("a connector's manifest is completed and checked", async () => {
  has(await offered(CURSOR, "connector"), "connector", "connections", "inputs", "types", "actions");
  const action = `connector: a\ntitle: A\nversion: "1"\nactions:\n  get:\n    ${CURSOR}`;
  has(await offered(action, "connector"), "title", "request", "inputs", "results", "example");
  for (const name of ["wiki", "http"]) {
    const text = await readFile(path.join(REPOSITORY, `crates/connector/manifests/${name}.yaml`), "utf8");
    assert.deepEqual(await problems(text, "connector"), [], name);
  }
});
