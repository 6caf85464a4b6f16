import { defineConfig } from "@playwright/test";

export default defineConfig({
  testDir: "tests",
  testMatch: process.env.SCREENSHOTS ? /screenshots\.ts$/ : process.env.MEASURE ? /measure\.ts$/ : /\.spec\.ts$/,
  timeout: 60_000,
  // A page answers in milliseconds, and later on a machine that has other work.
  expect: { timeout: 10_000 },
  fullyParallel: true,
  // A measurement has the machine alone.
  workers: process.env.MEASURE ? 1 : 2,
  reporter: "list",
  outputDir: "test-results",
  use: {
    // Chromium of the distribution, in its build without a window: its processes need about a quarter less time.
    launchOptions: { executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium-headless-shell", args: ["--no-sandbox"] },
    actionTimeout: 10_000,
    viewport: { width: 1440, height: 900 },
    screenshot: "only-on-failure",
  },
});
