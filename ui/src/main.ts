import { mount } from "svelte";

import App from "./App.svelte";
import "./design/tokens.css";
import "./design/base.css";
import { applyTheme } from "./design/theme";

applyTheme();
const target = document.getElementById("app");
if (target) {
  mount(App, { target });
}
