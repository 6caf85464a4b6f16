/** Types of inputs and results in words. */

import type { InputType, ResultType } from "../api/types";

/** An input's type in words, as the daemon's messages have it. */
export function inputType(type: InputType): string {
  switch (type.kind) {
    case "integer": {
      const { min, max } = type;
      if (min !== undefined && max !== undefined) {
        return `whole number from ${min} to ${max}`;
      }
      return min !== undefined ? `whole number from ${min}` : max !== undefined ? `whole number up to ${max}` : "whole number";
    }
    case "choice":
      return `one of ${type.options.join(", ")}`;
    case "list":
      return `list of ${inputType(type.items)}`;
    case "map":
      return `map of ${inputType(type.values)}`;
    case "object":
      return `map with ${type.fields.map(({ name }) => name).join(", ")}`;
    case "boolean":
      return "true or false";
    case "url":
      return "address";
    case "any":
      return "anything";
    default:
      return type.kind;
  }
}

/** A result's type in words, down to a few levels. */
export function resultType(type: ResultType, depth = 0): string {
  switch (type.kind) {
    case "list":
      return `list of ${resultType(type.items, depth)}`;
    case "map":
      return `map of ${resultType(type.values, depth)}`;
    case "choice":
      return `one of ${type.options.join(", ")}`;
    case "oneOf":
      return type.types.map((one) => resultType(one, depth)).join(" or ");
    case "object": {
      if (depth > 1) {
        return type.name ?? "map";
      }
      const fields = type.fields.map(
        ({ name, type: kind, optional }) => `${name}${optional ? "?" : ""}: ${resultType(kind, depth + 1)}`,
      );
      return `{${fields.join(", ")}${type.open ? ", …" : ""}}`;
    }
    case "boolean":
      return "true or false";
    case "integer":
      return "whole number";
    case "any":
      return "anything";
    default:
      return type.kind;
  }
}
