import { Daemon, login, test } from "./harness";
import { walk } from "./walk";

test("the walk of the manual goes from an empty folder to a fixed failure", async ({ stranger: page }) => {
  const own = await new Daemon().start({}, "empty");
  try {
    await login(page, own);
    await walk(page, own, async () => {});
  } finally {
    await own.stop();
  }
});
