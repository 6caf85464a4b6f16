import { defineConfig } from "vitest/config";

// The tests are of pure functions: they need no worker of their own for each file.
export default defineConfig({ test: { include: ["src/**/*.test.ts"], isolate: false } });
