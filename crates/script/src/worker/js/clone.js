// structuredClone: a copy of a value with all that is in it, cycles and all.

const uncloneable = (value) => new TypeError(`a ${typeof value} cannot be cloned`);

const cloneInto = (value, seen) => {
  if (typeof value === "function" || typeof value === "symbol") throw uncloneable(value);
  if (value === null || typeof value !== "object") return value;
  const known = seen.get(value);
  if (known !== undefined) return known;
  const keep = (copy) => {
    seen.set(value, copy);
    return copy;
  };
  const fill = (copy) => {
    for (const key of Object.keys(value))
      Object.defineProperty(copy, key, {
        value: cloneInto(value[key], seen),
        writable: true,
        enumerable: true,
        configurable: true,
      });
    return copy;
  };
  if (Array.isArray(value)) {
    const copy = keep([]);
    copy.length = value.length;
    return fill(copy);
  }
  if (value instanceof Date) return keep(new Date(value.getTime()));
  if (value instanceof RegExp) return keep(new RegExp(value.source, value.flags));
  if (value instanceof ArrayBuffer) return keep(value.slice(0));
  if (value instanceof DataView) return keep(new DataView(cloneInto(value.buffer, seen), value.byteOffset, value.byteLength));
  if (ArrayBuffer.isView(value)) return keep(value.slice());
  if (value instanceof Map) {
    const copy = keep(new Map());
    for (const [key, item] of value) copy.set(cloneInto(key, seen), cloneInto(item, seen));
    return copy;
  }
  if (value instanceof Set) {
    const copy = keep(new Set());
    for (const item of value) copy.add(cloneInto(item, seen));
    return copy;
  }
  if (value instanceof Error) {
    const copy = keep(new Error(String(value.message)));
    define(copy, "name", String(value.name));
    define(copy, "stack", String(value.stack));
    return copy;
  }
  if (value instanceof Promise || value instanceof WeakMap || value instanceof WeakSet) throw uncloneable(value);
  return fill(keep({}));
};

define(globalThis, "structuredClone", (value) => cloneInto(value, new Map()));

