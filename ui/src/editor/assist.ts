/** Completion, descriptions and definitions in the editor: the daemon answers, this shows it. */

import { type Completion, type CompletionContext, type CompletionResult, autocompletion } from "@codemirror/autocomplete";
import { forEachDiagnostic } from "@codemirror/lint";
import type { Extension } from "@codemirror/state";
import { type EditorView, hoverTooltip } from "@codemirror/view";

import { api, data } from "../api/client";
import type { CompletionItem, HoverValue } from "../api/types";

/** The kinds of items, as the icons of the editor name them. */
const ICONS: Record<string, string> = {
  key: "property",
  value: "constant",
  action: "method",
  input: "property",
  connection: "interface",
  step: "variable",
  member: "property",
  secret: "keyword",
  function: "function",
  filter: "function",
  test: "function",
  template: "text",
};

function option(item: CompletionItem): Completion {
  return {
    label: item.label,
    type: ICONS[item.kind] ?? "text",
    ...(item.detail === undefined ? {} : { detail: item.detail }),
    ...(item.about === undefined ? {} : { info: item.about }),
    ...(item.insert === undefined ? {} : { apply: item.insert === "${{  }}" ? expression : item.insert }),
  };
}

/** Inserts the marks of an expression with the cursor between them. */
function expression(view: EditorView, _: Completion, from: number, to: number): void {
  view.dispatch({ changes: { from, to, insert: "${{  }}" }, selection: { anchor: from + 4 } });
}

function source(path: string) {
  return async (context: CompletionContext): Promise<CompletionResult | null> => {
    const before = context.state.sliceDoc(Math.max(0, context.pos - 1), context.pos);
    if (!context.explicit && !/[\w.{|]/.test(before)) {
      return null;
    }
    try {
      const text = context.state.doc.toString();
      const stop = new AbortController();
      context.addEventListener("abort", () => stop.abort());
      const body = { path, text, offset: context.pos };
      const answer = await data(api.POST("/api/v1/complete", { body, signal: stop.signal }));
      if (answer.items.length === 0) {
        return null;
      }
      return { from: answer.from, to: answer.to, options: answer.items.map(option), validFor: /^\w*$/ };
    } catch {
      return null;
    }
  };
}

/** The value of an expression in an execution, as lines of a description. */
function valueOf(value: HoverValue): HTMLElement {
  const dom = document.createElement("div");
  dom.className = "cm-value";
  const where = document.createElement("div");
  where.textContent = value.step === undefined ? "At the end of the execution:" : `Where ${value.step} began:`;
  const shown = document.createElement("code");
  shown.textContent = value.error ?? `${value.json}${value.cut ? "…" : ""}`;
  dom.append(where, shown);
  return dom;
}

/** Completion and descriptions for the file at a path, with the values of the execution that `execution` returns. */
export function assist(path: string, execution: () => string | undefined): Extension {
  return [
    autocompletion({ override: [source(path)], icons: true }),
    hoverTooltip(async (view, offset) => {
      const chosen = execution();
      const body = { path, text: view.state.doc.toString(), offset, ...(chosen === undefined ? {} : { execution: chosen }) };
      const found = await data(api.POST("/api/v1/hover", { body })).catch(() => undefined);
      if (found?.from === undefined || found.to === undefined) {
        return null;
      }
      return {
        pos: found.from,
        end: found.to,
        above: true,
        create: () => {
          const dom = document.createElement("div");
          dom.className = "cm-description";
          const title = document.createElement("strong");
          title.textContent = found.title ?? "";
          const text = document.createElement("div");
          text.textContent = found.text ?? "";
          dom.append(title, text, ...(found.value ? [valueOf(found.value)] : []));
          return { dom };
        },
      };
    }),
  ];
}

/** The place where the name at the cursor is defined. */
export const definition = (path: string, text: string, offset: number) =>
  data(api.POST("/api/v1/definition", { body: { path, text, offset } }));

/** Applies the first correction of a problem on the line of the cursor. */
export function fix(view: EditorView): boolean {
  const line = view.state.doc.lineAt(view.state.selection.main.head);
  let done = false;
  forEachDiagnostic(view.state, (found, from, to) => {
    const action = found.actions?.[0];
    if (!done && action && from <= line.to && to >= line.from) {
      done = true;
      action.apply(view, from, to);
    }
  });
  return done;
}
