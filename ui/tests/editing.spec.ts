/** Files changed in the browser. */

import { type Daemon, expect, test } from "./harness";

const FILE = `name: Orders # for people

trigger:
  manual: {}

steps:
  # the first
  - id: page
    action: log.info
    with:
      message: Hello
`;

const onDisk = async (daemon: Daemon, id: string) =>
  ((await daemon.api("GET", `/files/automations%2F${id}.yaml`)) as { text: string }).text;

test("an automation is disabled and enabled by one key of its file", async ({ open, daemon }) => {
  await daemon.write("automations/switch.yaml", FILE);
  await open.goto(`${daemon.base}/automations/switch`);
  await open.getByRole("button", { name: "Disable" }).click();
  await expect(open.getByRole("button", { name: "Enable" })).toBeVisible();
  expect(await onDisk(daemon, "switch")).toBe(FILE.replace("# for people\n", "# for people\nenabled: false\n"));
  await open.getByRole("button", { name: "Enable" }).click();
  await expect(open.getByRole("button", { name: "Disable" })).toBeVisible();
});
