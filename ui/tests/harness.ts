/** The real daemon over the example project with the wiki simulator, and a browser that is logged in. A worker has one browser, and a daemon a project. */

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import { test as base, expect, type Browser, type BrowserContext, type Page } from "@playwright/test";

const bin = resolve(process.env.COGWORK_BIN ?? "../target/debug");
const root = resolve("..");
/** The time within which a program is ready, and the time between two looks, in milliseconds. */
const READY_WITHIN = 30_000;
const LOOK_EVERY = 20;

async function firstLine(program: ChildProcess): Promise<string> {
  let text = "";
  for await (const part of program.stdout ?? []) {
    text += String(part);
    const end = text.indexOf("\n");
    if (end >= 0) {
      return text.slice(0, end);
    }
  }
  throw new Error(`the program ended and said: ${text}`);
}

/** A daemon on a folder of its own. */
export class Daemon {
  readonly folder = mkdtempSync(join(tmpdir(), "cogwork-ui-"));
  private wiki: ChildProcess | undefined;
  private daemon: ChildProcess | undefined;
  private wikiHost = "";
  private ports = ["0", "0"];
  private settings: Record<string, string> = {};
  base = "";

  /** Starts the wiki and the daemon, with these variables in its environment, over the examples or an empty project. */
  async start(settings: Record<string, string> = {}, project: "examples" | "empty" = "examples"): Promise<this> {
    this.settings = settings;
    for (const part of ["automations", "connections"]) {
      if (project === "examples") {
        cpSync(join(root, part), join(this.folder, part), { recursive: true });
      } else {
        mkdirSync(join(this.folder, part));
      }
    }
    this.wiki = spawn(join(bin, "wiki-simulator"), ["--listen", "127.0.0.1:0", "--quiet"], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    this.wikiHost = await firstLine(this.wiki);
    await this.serve();
    return this;
  }

  /** Starts the daemon; again on the same ports after `kill`. */
  async serve(): Promise<void> {
    const [hooks, admin] = this.ports;
    this.daemon = spawn(
      join(bin, "cogwork"),
      ["serve", "--hooks", `127.0.0.1:${hooks}`, "--admin", `127.0.0.1:${admin}`],
      {
        cwd: this.folder,
        stdio: "ignore",
        env: {
          ...process.env,
          WIKI_HOST: this.wikiHost,
          COGWORK_SECRET_WIKI_TOKEN: "demo-token",
          COGWORK_OUTBOUND_ALLOW: "127.0.0.1",
          ...this.settings,
        },
      },
    );
    const until = Date.now() + READY_WITHIN;
    for (;;) {
      try {
        const daemon = JSON.parse(readFileSync(join(this.folder, ".cogwork/daemon.json"), "utf8")) as Record<string, string>;
        this.base = `http://${daemon.admin}`;
        await this.api("GET", "/status");
        this.ports = [daemon.hooks ?? "", daemon.admin ?? ""].map((address) => address.split(":").pop() ?? "");
        return;
      } catch (error) {
        if (Date.now() > until) {
          throw error;
        }
        await new Promise((done) => setTimeout(done, LOOK_EVERY));
      }
    }
  }

  /** A login link. */
  async link(): Promise<string> {
    const { path } = (await this.api("POST", "/session/link", {})) as { path: string };
    return this.base + path;
  }

  /** Runs a command in the project, and returns its output. */
  command(args: string[]): string {
    return execFileSync(join(bin, "cogwork"), args, { cwd: this.folder, stdio: ["ignore", "pipe", "ignore"] }).toString();
  }

  /** A request with the admin token. */
  async api(method: string, path: string, body?: unknown): Promise<unknown> {
    const token = readFileSync(join(this.folder, ".cogwork/admin-token"), "utf8").trim();
    const response = await fetch(`${this.base}/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    expect(response.ok, `${method} ${path}: ${response.status}`).toBe(true);
    return response.status === 204 ? undefined : response.json();
  }

  /** Writes a file of the project, and waits until the daemon has taken it. */
  async write(path: string, text: string): Promise<void> {
    writeFileSync(join(this.folder, path), text);
    await this.api("POST", "/reload", {});
  }

  /** Removes a file of the project, and waits until the daemon has seen it. */
  async remove(path: string): Promise<void> {
    rmSync(join(this.folder, path));
    await this.api("POST", "/reload", {});
  }

  /** Writes a file into a folder of the project that may not exist yet, and waits until the daemon has taken it. */
  async writeIn(folder: string, name: string, text: string): Promise<void> {
    mkdirSync(join(this.folder, folder), { recursive: true });
    await this.write(`${folder}/${name}`, text);
  }

  /** Sends a request to the live or test address of a webhook. */
  async send(automation: string, body: unknown, address: "liveUrl" | "testUrl" = "liveUrl"): Promise<Response> {
    const found = (await this.api("GET", `/automations/${automation}`)) as Record<string, string>;
    return fetch(found[address] ?? "", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  }

  /** Starts an automation and waits for its end. Returns its id. */
  async run(automation: string, body: unknown): Promise<string> {
    const { executionId } = (await this.api("POST", `/automations/${automation}/run?wait=true`, body)) as {
      executionId: string;
    };
    return executionId;
  }

  async kill(): Promise<void> {
    const ended = new Promise((done) => this.daemon?.once("exit", done));
    this.daemon?.kill("SIGKILL");
    await ended;
  }

  async stop(): Promise<void> {
    await this.kill();
    this.wiki?.kill("SIGKILL");
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** The errors of a page: refused by its policy, thrown by a script, or a dialog opened by untrusted text. */
function watch(page: Page): string[] {
  const found: string[] = [];
  page.on("pageerror", (error) => found.push(error.message));
  page.on("dialog", (dialog) => {
    if (dialog.type() === "beforeunload") {
      void dialog.accept();
      return;
    }
    found.push(`dialog ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("console", (message) => {
    if (/Content Security Policy|TrustedHTML/.test(message.text())) {
      found.push(message.text());
    }
  });
  return found;
}

/** Opens the list of automations by a fresh login. */
export async function login(page: Page, daemon: Daemon): Promise<void> {
  await page.goto(await daemon.link());
  await expect(page.getByRole("heading", { name: "Automations" })).toBeVisible();
}

/** Ends the session of a page at the daemon, of which the page hears at its next request. */
export async function endSession(page: Page): Promise<void> {
  await page.evaluate(() =>
    fetch("/api/v1/session", { method: "DELETE", headers: { "x-cogwork-session": localStorage.getItem("cogwork-session") ?? "" } }),
  );
}

interface OfTest {
  /** A unique name gives a test file its own project. */
  own: string;
  project: Project;
  daemon: Daemon;
  /** A page in the browser that is logged in. At the end it must have had no error. */
  open: Page;
  /** The same page, which shows the list of automations. */
  home: Page;
  /** A page in a browser without a session. */
  stranger: Page;
}
interface OfWorker {
  projects: Projects;
}
/** A daemon, and the browser context that is logged in to it: its pages share a session and the cache. */
interface Project {
  daemon: Daemon;
  known: BrowserContext;
}

/**
 * The projects of a worker, started when a test first needs them. Tests run in the order of their files, so that a project of
 * a file ends when a test of the next one begins; the browser is the same for all.
 */
class Projects {
  private readonly open = new Map<string, Promise<Project>>();

  constructor(private readonly browser: Browser) {}

  async of(name: string): Promise<Project> {
    for (const other of [...this.open.keys()].filter((one) => one !== name && one !== "")) {
      await this.end(other);
    }
    const project = this.open.get(name) ?? this.start();
    this.open.set(name, project);
    return project;
  }

  async stop(): Promise<void> {
    for (const name of [...this.open.keys()]) {
      await this.end(name);
    }
  }

  private async start(): Promise<Project> {
    const daemon = await new Daemon().start();
    const known = await this.browser.newContext({ viewport: { width: 1440, height: 900 } });
    const page = await known.newPage();
    await login(page, daemon);
    await page.close();
    return { daemon, known };
  }

  private async end(name: string): Promise<void> {
    const project = await this.open.get(name);
    this.open.delete(name);
    await project?.known.close();
    await project?.daemon.stop();
  }
}

export const test = base.extend<OfTest, OfWorker>({
  own: ["", { option: true }],
  projects: [
    async ({ browser }, use) => {
      const projects = new Projects(browser);
      await use(projects);
      await projects.stop();
    },
    { scope: "worker" },
  ],
  project: async ({ projects, own }, use) => use(await projects.of(own)),
  daemon: async ({ project }, use) => use(project.daemon),
  context: async ({ project }, use) => use(project.known),
  page: async ({ context }, use) => {
    const page = await context.newPage();
    await use(page);
    await page.close();
  },
  open: async ({ page }, use) => {
    const errors = watch(page);
    await use(page);
    expect(errors).toEqual([]);
  },
  home: async ({ open, daemon }, use) => {
    await open.goto(daemon.base);
    await expect(open.getByRole("heading", { name: "Automations" })).toBeVisible();
    await use(open);
  },
  stranger: async ({ browser }, use) => {
    const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
    await use(await context.newPage());
    await context.close();
  },
});

export { expect };
