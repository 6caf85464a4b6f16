/** Declared fields: inputs of an automation, and data of an event. Each has a name and a type, alone or with further keys. */

import type { Json } from "./trigger";

/** The types of a field that need no further keys. */
export const TYPES = ["any", "text", "integer", "number", "boolean", "list", "map"];

export interface Declared {
  name: string;
  type: string;
  required: boolean;
}

type Fields = { [name: string]: Json };
const isMap = (value: Json | undefined): value is Fields => typeof value === "object" && value !== null && !Array.isArray(value);

/** The declared fields; `undefined` if the value declares none, so that only the text of the file can show it. */
export function declared(value: Json | undefined): Declared[] | undefined {
  if (value === undefined) {
    return [];
  }
  if (!isMap(value)) {
    return undefined;
  }
  const found = Object.entries(value).map(([name, of]): Declared | undefined => {
    if (typeof of === "string") {
      return { name, type: of, required: false };
    }
    const type = isMap(of) ? (of["type"] ?? (of["options"] === undefined ? "any" : "choice")) : undefined;
    return isMap(of) && typeof type === "string" ? { name, type, required: of["required"] === true } : undefined;
  });
  return found.every((one) => one !== undefined) ? found : undefined;
}

/** The declaration of a field with another type, or that is required or no longer. Its other keys stay; a type alone is the short form. */
export function redeclared(value: Json | undefined, field: Pick<Declared, "type" | "required">): Json {
  const { type: _type, required: _required, ...rest } = isMap(value) ? value : {};
  const others = { ...rest, ...(field.required && { required: true }) };
  return Object.keys(others).length === 0 ? field.type : { type: field.type, ...others };
}
