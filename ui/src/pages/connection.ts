/** A new connection: its name, the names of its secrets, and the operations that write its file. */

import type { ConnectionInput, Operation } from "../api/types";

/** True if a text can be the name of a connection: that of its file. */
export function isName(text: string): boolean {
  return /^[A-Za-z][A-Za-z0-9_-]*$/.test(text);
}

/** The name that the secret of an input gets: `mainWiki` and `apiToken` give `mainWikiApiToken`. */
export function secretName(connection: string, input: string): string {
  const words = `${connection} ${input}`.split(/[^A-Za-z0-9]+/).filter((word) => word !== "");
  return words.map((word, index) => (index === 0 ? word : word[0]?.toUpperCase() + word.slice(1))).join("");
}

/** The operations that write the file of a connection. Secrets are named and not written. */
export function operations(type: string, name: string, inputs: ConnectionInput[], values: Record<string, unknown>): Operation[] {
  const given: Record<string, unknown> = {};
  for (const input of inputs) {
    if (input.secret && input.name in values) {
      given[input.name] = `\${{ secrets.${secretName(name, input.name)} }}`;
    } else if (input.name in values) {
      given[input.name] = values[input.name];
    }
  }
  const set = (at: string, value: unknown): Operation => ({ op: "set", at: [at], value });
  return [set("type", type), ...(Object.keys(given).length > 0 ? [set("with", given)] : [])];
}
