// A conversation with a language server over stdin and stdout, in JSON-RPC as the Language Server Protocol 3.17 has it.
// Every wait has a deadline: a server that hangs fails the test that asked it.

import { spawn } from "node:child_process";
import { pathToFileURL } from "node:url";

const DEADLINE_MS = 20_000;

const SETTINGS = { validate: true, hover: true, completion: true, schemaStore: { enable: false } };

export class Session {
  #server;
  #received = Buffer.alloc(0);
  #nextId = 1;
  #pending = new Map();
  #diagnostics = new Map();
  #waiting = new Set();
  #complaints = "";

  /** Starts the server at this path. */
  static async start(server, root) {
    const session = new Session(server);
    const folder = { uri: pathToFileURL(root).href, name: "project" };
    await session.#request("initialize", {
      processId: process.pid,
      rootUri: folder.uri,
      workspaceFolders: [folder],
      capabilities: {
        textDocument: {
          completion: { completionItem: { documentationFormat: ["markdown", "plaintext"] } },
          hover: { contentFormat: ["markdown"] },
          publishDiagnostics: {},
        },
        workspace: { configuration: true, workspaceFolders: true },
      },
    });
    session.#notify("initialized", {});
    session.#notify("workspace/didChangeConfiguration", { settings: { yaml: SETTINGS } });
    return session;
  }

  constructor(server) {
    this.#server = spawn(process.execPath, [server, "--stdio"], { stdio: "pipe" });
    this.#server.stderr.on("data", (data) => (this.#complaints += data));
    this.#server.stdout.on("data", (data) => {
      this.#received = Buffer.concat([this.#received, data]);
      for (let message = this.#read(); message; message = this.#read()) this.#take(message);
    });
    this.#server.on("exit", (code) => {
      const error = new Error(`the server has ended with ${code}: ${this.#complaints}`);
      this.#pending.forEach(({ reject }) => reject(error));
    });
  }

  /** Opens a document; the server then looks at it. */
  open(uri, text) {
    this.#diagnostics.delete(uri);
    this.#notify("textDocument/didOpen", { textDocument: { uri, languageId: "yaml", version: 1, text } });
  }

  close(uri) {
    this.#notify("textDocument/didClose", { textDocument: { uri } });
  }

  /** The server's diagnostics of an open document, once it has checked it. */
  async diagnostics(uri) {
    const said = () => this.#diagnostics.get(uri);
    if (!said()) {
      await withDeadline(`diagnostics of ${uri}`, (resolve) => {
        const look = () => said() && (this.#waiting.delete(look), resolve());
        this.#waiting.add(look);
      });
    }
    return said();
  }

  async completion(uri, position) {
    const answer = await this.#request("textDocument/completion", { textDocument: { uri }, position });
    return answer?.items ?? answer ?? [];
  }

  async hover(uri, position) {
    const answer = await this.#request("textDocument/hover", { textDocument: { uri }, position });
    return answer?.contents?.value ?? "";
  }

  async stop() {
    await this.#request("shutdown", null);
    this.#notify("exit");
    await withDeadline("the end of the server", (resolve) => {
      if (this.#server.exitCode !== null) resolve();
      this.#server.on("exit", resolve);
    });
  }

  kill() {
    this.#server.kill("SIGKILL");
  }

  #request(method, params) {
    const id = this.#nextId++;
    const answer = withDeadline(method, (resolve, reject) => this.#pending.set(id, { resolve, reject }));
    this.#send({ id, method, params });
    return answer;
  }

  #notify(method, params) {
    this.#send({ method, params });
  }

  #send(message) {
    const text = JSON.stringify({ jsonrpc: "2.0", ...message });
    this.#server.stdin.write(`Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`);
  }

  /** The next whole message that came, if there is one. */
  #read() {
    const end = this.#received.indexOf("\r\n\r\n");
    if (end < 0) return undefined;
    const length = Number(/Content-Length: (\d+)/i.exec(this.#received.toString("utf8", 0, end))?.[1]);
    const from = end + 4;
    if (this.#received.length < from + length) return undefined;
    const message = JSON.parse(this.#received.toString("utf8", from, from + length));
    this.#received = this.#received.subarray(from + length);
    return message;
  }

  #take({ id, method, params, result, error }) {
    if (method === "workspace/configuration") {
      this.#send({ id, result: params.items.map(({ section }) => (section === "yaml" ? SETTINGS : {})) });
    } else if (method && id !== undefined) {
      this.#send({ id, result: null });
    } else if (method === "textDocument/publishDiagnostics") {
      this.#diagnostics.set(params.uri, params.diagnostics);
      this.#waiting.forEach((look) => look());
    } else if (this.#pending.has(id)) {
      const { resolve, reject } = this.#pending.get(id);
      this.#pending.delete(id);
      error ? reject(new Error(error.message)) : resolve(result);
    }
  }
}

function withDeadline(what, begin) {
  return new Promise((resolve, reject) => {
    const late = () => reject(new Error(`${what}: nothing came within ${DEADLINE_MS} ms`));
    const timer = setTimeout(late, DEADLINE_MS);
    const end = (settle) => (value) => (clearTimeout(timer), settle(value));
    begin(end(resolve), end(reject));
  });
}
