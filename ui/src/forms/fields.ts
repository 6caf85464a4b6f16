/** Fields of forms: from JSON Schemas and from inputs of actions, and the conversion of typed text. */

import { api, data as body } from "../api/client";
import type { Input, Path } from "../api/types";
import { asInteger, number, parse } from "../value/exact";

export interface Schema {
  $ref?: string;
  type?: string | string[];
  enum?: unknown[];
  const?: unknown;
  examples?: unknown[];
  description?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  items?: Schema;
  minimum?: number;
  maximum?: number;
  $defs?: Record<string, Schema>;
}

/** The kind of a field. `source` is edited as text. */
export type Kind = "text" | "number" | "boolean" | "choice" | "list" | "any" | "source";

export interface Field {
  key: string;
  kind: Kind;
  about: string;
  required: boolean;
  options: string[];
  /** An example or the default, shown in the empty field. */
  hint: string;
}

/** The schema of automations, with the actions and connections in force. */
export const automationSchema = (): Promise<Schema> =>
  body(api.GET("/api/v1/schemas/{name}", { params: { path: { name: "automation" } } })).then((found) => found as Schema);

function resolved(schema: Schema, root: Schema): Schema {
  const name = /^#\/\$defs\/(.+)$/.exec(schema.$ref ?? "")?.[1];
  const target = name === undefined ? undefined : root.$defs?.[name];
  return target === undefined ? schema : { ...resolved(target, root), ...(schema.description ? { description: schema.description } : {}) };
}

function kindOf(schema: Schema): Kind {
  const types = [schema.type ?? []].flat();
  if (schema.enum) {
    return "choice";
  }
  const alternatives = schema.anyOf ?? schema.oneOf;
  if (alternatives) {
    const kinds = alternatives.map(kindOf);
    return kinds.find((kind) => kind !== "source" && kind !== "any") ?? "source";
  }
  if (types.includes("boolean")) {
    return types.includes("string") ? "text" : "boolean";
  }
  if (types.includes("integer") || types.includes("number")) {
    return "number";
  }
  if (types.includes("string")) {
    return "text";
  }
  if (types.includes("array")) {
    return schema.items?.type === "string" ? "list" : "source";
  }
  return types.length === 0 && !schema.properties ? "any" : "source";
}

/** The texts to choose from at a path. */
export function choices(schema: Schema, at: Path): string[] {
  const [key, ...rest] = at;
  const inner = key === undefined ? undefined : schema.properties?.[key];
  const own = key === undefined ? (schema.enum ?? schema.items?.enum ?? []).map(String) : inner ? choices(inner, rest) : [];
  return [...new Set([...own, ...(schema.anyOf ?? []).flatMap((one) => choices(one, at))])];
}

/** The fields of a mapping by its schema. */
export function schemaFields(schema: Schema, root: Schema, without: readonly string[]): Field[] {
  return Object.entries(schema.properties ?? {})
    .filter(([key]) => !without.includes(key))
    .map(([key, value]) => {
      const found = resolved(value, root);
      const own = found.anyOf?.map((one) => resolved(one, root)).find((one) => one.enum) ?? found;
      return {
        key,
        kind: kindOf(found),
        about: value.description ?? found.description ?? "",
        required: schema.required?.includes(key) ?? false,
        options: (own.enum ?? []).map(String),
        hint: found.examples?.[0] === undefined ? "" : `such as ${String(found.examples[0])}`,
      };
    });
}

/** The fields of the mapping that a step has behind a key, by the schema of the step. Keys with steps inside are left out. */
export function innerFields(step: Schema, root: Schema, key: string): Field[] {
  const value = step.properties?.[key];
  const found = value && resolved(value, root);
  const maps = [found, ...(found?.anyOf ?? []), ...(found?.oneOf ?? [])].filter((one) => one !== undefined).map((one) => resolved(one, root));
  const map = maps.find((one) => one.properties !== undefined);
  return map ? schemaFields(map, root, ["steps"]) : [];
}

/** The fields of an action's inputs. */
export function inputFields(inputs: readonly Input[]): Field[] {
  const kinds: Record<string, Kind> = { text: "text", url: "text", integer: "number", number: "number", boolean: "boolean", choice: "choice" };
  return inputs.map((input) => ({
    key: input.name,
    kind: kinds[input.type.kind] ?? "any",
    about: input.description ?? "",
    required: input.required,
    options: input.type.kind === "choice" ? input.type.options : [],
    hint: input.default === undefined || input.default === null ? "" : `default ${typeof input.default === "string" ? input.default : JSON.stringify(input.default)}`,
  }));
}

/** A value as the text of its field; `undefined` if only the source can show it. */
export function shown(value: unknown): string | undefined {
  if (value === undefined || value === null) {
    return "";
  }
  if (Array.isArray(value) && value.every((one) => typeof one === "string" && !one.includes(","))) {
    return value.join(", ");
  }
  return asInteger(value) ?? (typeof value === "object" ? undefined : String(value));
}

/** The value of the text of a field; `undefined` removes the key. */
export function typed(field: Pick<Field, "kind">, text: string, before: unknown): unknown {
  if (text === "") {
    return undefined;
  }
  if (text.includes("${{")) {
    return text;
  }
  switch (field.kind) {
    case "number":
      return number(text) ?? text;
    case "boolean":
      return text === "true";
    case "list":
      return text
        .split(",")
        .map((one) => one.trim())
        .filter((one) => one !== "");
    case "any":
      // A text stays one, even if it looks like a number.
      return typeof before === "string" ? text : literal(text);
    default:
      return typeof before === "number" || asInteger(before) !== undefined ? (number(text) ?? text) : text;
  }
}

function literal(text: string): unknown {
  try {
    return parse(text);
  } catch {
    return text;
  }
}
