/** Texts of others: 200 strings in every field that reaches the UI. Nothing runs, nothing is loaded, nothing navigates. */

import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

import type { Page } from "@playwright/test";

import { type Daemon, expect, test } from "./harness";

const CORPUS = readFileSync(new URL("injection-corpus.txt", import.meta.url), "utf8").split("\n").filter((line) => line !== "");
/** A header holds no control characters, and no letters beyond Latin-1. */
const PRINTABLE = /^[\x21-\x7e][\x20-\x7e]*$/;
/** The number of files into which the strings are divided. */
const FILES = 4;

/** A text of YAML that is this string, as JSON writes it. `$` is doubled where a template would begin. */
const quoted = (text: string): string => JSON.stringify(text);
const literal = (text: string): string => quoted(text.replaceAll("${{", "$ {{"));

/** An automation with hostile names, labels and texts, whose log lines, results and error are the strings of its input. */
const automation = (strings: string[]): string => `name: ${literal(strings[0] ?? "")}
description: ${literal(strings.join(" "))}
labels: [${strings.filter((text) => text.trim() !== "").map(literal).join(", ")}]
trigger: {webhook: {mode: sync, verify: none}}
steps:
${strings
  .map(
    (text, index) =>
      `  - {id: s${index}, name: ${literal(text)}, set: {value: "\${{ trigger.results.body.data.strings[${index}] }}"}}`,
  )
  .join("\n")}
  - {forEach: "trigger.results.body.data.strings", steps: [{action: log.info, with: {message: "\${{ item }}"}}]}
  - {fail: "\${{ trigger.results.body.data.strings | join(' ') }}"}
`;

async function check(page: Page, path: string, base: string): Promise<void> {
  await page.goto(base + path);
  await expect(page.getByRole("heading").first()).toBeVisible();
  await unroll(page);
  expect(new URL(page.url()).origin, path).toBe(base);
  expect(new URL(page.url()).pathname, path).toBe(new URL(base + path).pathname);
  const added = await page.evaluate(
    () => document.querySelectorAll("main script, main iframe, main object, main embed, main base, main form[action], main meta, main link").length,
  );
  expect(added, `${path} has an element that a text has made`).toBe(0);
  expect(await page.evaluate(() => ("polluted" in {} ? "polluted" : "clean")), path).toBe("clean");
}

/** Draws every row of the trees of values, of which only those in sight are in the page. */
async function unroll(page: Page): Promise<void> {
  await page.evaluate(async () => {
    for (const tree of document.querySelectorAll("[role=tree]")) {
      for (let top = 0; top < tree.scrollHeight; top += tree.clientHeight) {
        tree.scrollTop = top;
        await new Promise(requestAnimationFrame);
      }
    }
  });
}

/** Requests to anywhere but the daemon. */
function foreign(page: Page, base: string): string[] {
  const found: string[] = [];
  page.on("request", (request) => {
    if (!request.url().startsWith(base) && !/^(data|blob):/.test(request.url())) {
      found.push(request.url());
    }
  });
  return found;
}

async function send(daemon: Daemon, id: string, strings: string[], address: "liveUrl" | "testUrl"): Promise<void> {
  const found = (await daemon.api("GET", `/automations/${id}`)) as Record<string, string>;
  const headers: Record<string, string> = { "content-type": "application/json" };
  strings.forEach((text, index) => {
    if (PRINTABLE.test(text)) {
      headers[`x-s${index}`] = text;
    }
  });
  const query = strings.map((text) => `${encodeURIComponent(text)}=${encodeURIComponent(text)}`).join("&");
  const path = encodeURIComponent(strings[1] ?? "");
  const parts = Object.fromEntries(strings.map((text) => [text, text]));
  await fetch(`${found[address]}/${path}?${query}`, { method: "POST", headers, body: JSON.stringify({ strings, parts }) });
}

test("the corpus has 200 strings, and none twice", () => {
  expect(new Set(CORPUS).size).toBe(200);
});

for (let file = 0; file < FILES; file += 1) {
  test(`untrusted text is never markup on any page: part ${file + 1} of ${FILES}`, async ({ open, daemon }) => {
    const requests = foreign(open, daemon.base);
    const strings = CORPUS.filter((_, index) => index % FILES === file);
    const id = `hostile-${file}`;
    await daemon.write(`automations/${id}.yaml`, automation(strings));
    await send(daemon, id, strings, "liveUrl");
    await daemon.api("POST", `/automations/${id}/listen`, {});
    await send(daemon, id, strings, "testUrl");
    await daemon.api("POST", `/automations/${id}/payloads`, { name: "hostile", capture: 1 });
    const { executions } = (await daemon.api("GET", `/executions?automation=${id}&limit=1`)) as { executions: { id: string }[] };
    const execution = executions[0]?.id;
    expect(execution).toBeDefined();
    await check(open, `/executions/${execution}`, daemon.base);
    for (const tab of ["input", "result", "logs", "response", "source"]) {
      await check(open, `/executions/${execution}?tab=${tab}&step=s1`, daemon.base);
    }
    for (const path of ["/", `/executions?automation=${id}`, `/automations/${id}`, `/automations/${id}?tab=source`, "/status"]) {
      await check(open, path, daemon.base);
    }
    await check(open, `/automations/${id}?tab=test`, daemon.base);
    await expect(open.getByRole("region", { name: "Listening" }).getByText("would start an execution")).toBeVisible();
    for (const text of [strings[2], strings[3]]) {
      await expect(open.getByText(text ?? "").filter({ visible: true }).first()).toBeVisible();
    }
    await open.getByRole("button", { name: "More of hostile" }).click();
    await open.getByRole("menuitem", { name: "Edit …" }).click();
    const results = open.getByRole("dialog").getByRole("region", { name: "What steps would read" });
    await expect(results.getByRole("treeitem").first()).toBeVisible();
    await unroll(open);
    await results.getByRole("tree").press("End");
    await expect(results.getByRole("treeitem", { selected: true })).toBeVisible();
    // Addresses that name them lead nowhere, and say so.
    for (const text of strings.slice(0, 3)) {
      await open.goto(`${daemon.base}/?q=${encodeURIComponent(text)}`);
      await expect(open.getByRole("heading", { name: "Automations" })).toBeVisible();
    }
    expect(requests).toEqual([]);
  });
}

test("names of files, connections and connectors and manifest texts are never markup", async ({ open, daemon }) => {
  const requests = foreign(open, daemon.base);
  const texts = CORPUS.filter((text) => text.length < 200);
  const name = "<img src=x onerror=alert(1)>.yaml";
  await daemon.write(`automations/${name}`, `trigger: {manual: {}}\non: ${quoted(texts.join(" "))}\nsteps: []\n`);
  const manifest = `connector: hostile
title: ${literal(texts[0] ?? "")}
version: 1.0.0
subject: ${literal(texts[1] ?? "")}
connections:
  key:
    title: ${literal(texts[2] ?? "")}
    inputs: {host: {type: text, required: true, description: ${literal(texts.slice(0, 60).join(" "))}}}
    baseUrl: {input: host}
    auth: {header: {name: X-Api-Key, value: host}}
inputs: {one: {type: text, description: ${literal(texts.slice(60, 120).join(" "))}}}
actions:
  getThing:
    title: ${literal(texts[3] ?? "")}
    description: ${literal(texts.slice(120).join(" "))}
    request: GET /things/{one}
    inputs: {one: path}
    example: {with: {one: "1"}, request: GET /things/1}
`;
  await daemon.writeIn("connectors", "hostile.yaml", manifest);
  await daemon.writeIn("connections", "hostile.yaml", `type: ${literal(texts[60] ?? "")}\nwith: {host: ${literal(texts[61] ?? "")}}\n`);
  for (const path of ["/", "/connections", "/connectors", "/connectors/hostile", "/status"]) {
    await check(open, path, daemon.base);
  }
  await open.goto(daemon.base);
  await expect(open.getByText("onerror=alert(1)").filter({ visible: true }).first()).toBeVisible();
  expect(requests).toEqual([]);
});

test("questions, state, comparisons, tests, versions, files and the audit log are never markup", async ({ open, daemon }) => {
  const requests = foreign(open, daemon.base);
  const texts = CORPUS.filter((text) => text.length < 200);
  const message = literal(texts.join(" ").slice(0, 8000));
  const asking = `name: ${literal(texts[5] ?? "")}
trigger: {manual: {}}
steps:
  - id: ask
    waitFor:
      approval:
        message: ${message}
        options: [first, second]
        form: {note: {type: text, description: ${literal(texts.slice(0, 40).join(" "))}}}
`;
  await daemon.write("automations/hostile-question.yaml", asking);
  await daemon.api("POST", "/automations/hostile-question/run", {});
  await daemon.api("PUT", "/state/shared/hostile", { value: Object.fromEntries(texts.map((text) => [text, text])) });
  const failing = (name: string) => `name: ${literal(name)}\ntrigger: {manual: {}}\nsteps: [{id: s, set: {a: ${message}}}, {fail: ${message}}]\n`;
  await daemon.write("automations/hostile-compared.yaml", failing(texts[6] ?? ""));
  const left = await daemon.run("hostile-compared", {});
  await daemon.write("automations/hostile-compared.yaml", failing(texts[7] ?? "").replace("a: ", "b: "));
  const right = await daemon.run("hostile-compared", {});
  const cases = texts.slice(0, 8).map((text) => `  - {name: ${literal(text)}, expect: {result: ${literal(text)}}}`);
  await daemon.write("automations/hostile-compared.test.yaml", `tests:\n${cases.join("\n")}\n`);
  await daemon.write("automations/hostile-file.yaml", `trigger: {manual: {}}\nsteps: [{${quoted(texts.join(" ").slice(0, 900))}: 1}]\n`);
  for (const path of [
    "/inbox",
    "/state",
    `/executions/${left}/compare/${right}`,
    "/automations/hostile-compared?tab=tests",
    "/automations/hostile-compared?tab=versions",
    "/automations/hostile-question?tab=both&step=ask",
    "/files/automations%2Fhostile-file.yaml",
    `/new?trigger=manual&execution=${left}`,
    `/access?tab=audit&subject=${encodeURIComponent(texts[0] ?? "")}`,
  ]) {
    await check(open, path, daemon.base);
  }
  await open.goto(`${daemon.base}/inbox`);
  await expect(open.getByRole("form").first()).toBeVisible();
  await open.goto(`${daemon.base}/automations/hostile-compared?tab=tests`);
  await expect(open.getByText(texts[0] ?? "").filter({ visible: true }).first()).toBeVisible();
  expect(requests).toEqual([]);
});

test("uploaded file names, external errors and responses, and execution sheets are never markup", async ({ open, daemon }) => {
  const requests = foreign(open, daemon.base);
  const fields = Object.fromEntries(CORPUS.filter((text) => PRINTABLE.test(text) && text.length < 200).slice(0, 60).map((text, index) => [`x-s${index}`, text]));
  const peer = createServer((_, response) => {
    response.writeHead(400, { "content-type": "application/json", ...fields });
    response.end(JSON.stringify({ message: CORPUS.join(" "), errors: CORPUS, parts: Object.fromEntries(CORPUS.map((text) => [text, text])) }));
  });
  await new Promise<void>((done) => peer.listen(0, "127.0.0.1", done));
  const answer = Object.entries(fields).map(([name, text]) => `${name}: ${literal(text)}`);
  const inputs = CORPUS.map((text, index) => `i${index}: {type: text, description: ${literal(text)}}`);
  const text = `trigger: {webhook: {mode: sync, verify: none}}
steps:
  - {respond: {status: 200, headers: {${answer.join(", ")}}, json: {a: ${literal(CORPUS.join(" ").slice(0, 4000))}}}}
  - {id: get, action: http.request, with: {method: GET, url: "http://127.0.0.1:${(peer.address() as AddressInfo).port}/"}}
`;
  await daemon.write("automations/hostile-upload.yaml", text);
  await daemon.write("automations/hostile-inputs.yaml", `trigger: {manual: {}}\ninputs: {${inputs.join(", ")}}\nsteps: [{set: {a: 1}}]\n`);
  const form = new FormData();
  CORPUS.forEach((name, index) => form.append(`f${index}`, new File(["x"], name, { type: "text/plain" })));
  const { liveUrl } = (await daemon.api("GET", "/automations/hostile-upload")) as { liveUrl: string };
  const sent = await fetch(liveUrl, { method: "POST", body: form });
  const id = sent.headers.get("x-execution-id");
  expect(id, `${sent.status}`).not.toBeNull();
  await expect.poll(async () => ((await daemon.api("GET", `/executions/${id}`)) as { status: string }).status).toBe("failed");
  for (const path of [
    `/executions/${id}?step=trigger&tab=input`,
    `/executions/${id}?step=get&tab=error`,
    `/executions/${id}?tab=response`,
    "/automations/hostile-inputs?tab=test",
    "/executions?automation=hostile-upload",
  ]) {
    await check(open, path, daemon.base);
  }
  await open.goto(`${daemon.base}/executions/${id}?step=get&tab=error`);
  await expect(open.getByText("onerror=alert(1)").filter({ visible: true }).first()).toBeVisible();
  for (const name of ["Replay…", "Save as test…", "Try on the draft …", "Compare with …"]) {
    if (name.startsWith("Try")) {
      await open.getByRole("button", { name: "More actions" }).click();
    }
    await open.getByRole(name.startsWith("Try") ? "menuitem" : "button", { name, exact: true }).click();
    const sheet = open.getByRole("dialog");
    await expect(sheet).toBeVisible();
    await unroll(open);
    expect(await sheet.locator("script, iframe, img, object, base, form[action]").count(), name).toBe(0);
    await open.keyboard.press("Escape");
    await expect(sheet).toBeHidden();
  }
  expect(requests).toEqual([]);
  peer.close();
});
