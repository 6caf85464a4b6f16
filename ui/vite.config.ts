import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

export default defineConfig({
  plugins: [svelte()],
  build: {
    // The strict content security policy allows files of this origin alone.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2022",
    // One file of styles, and one of what most pages share: a page needs a few requests.
    cssCodeSplit: false,
    rolldownOptions: {
      output: {
        codeSplitting: {
          groups: [{ name: "base", test: /node_modules\/(svelte|esm-env|clsx|openapi-fetch)\/|\/src\/(api|design|format|keys|router|lists\/(rows|automations))/ }],
        },
      },
    },
  },
});
