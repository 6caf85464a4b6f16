// Takes away what is not the language, and freezes all that outlives a run: no run may see what another did.

const LANGUAGE = [
  "globalThis", "undefined", "NaN", "Infinity", "parseInt", "parseFloat", "isNaN", "isFinite",
  "decodeURI", "decodeURIComponent", "encodeURI", "encodeURIComponent", "escape", "unescape",
  "Object", "Boolean", "Symbol", "Number", "BigInt", "Math", "Date", "String", "RegExp", "Array", "JSON", "Reflect", "Proxy",
  "Error", "AggregateError", "EvalError", "RangeError", "ReferenceError", "SuppressedError", "SyntaxError", "TypeError", "URIError",
  "Map", "Set", "WeakMap", "WeakSet", "Promise", "Iterator", "ArrayBuffer", "DataView",
  "Int8Array", "Uint8Array", "Uint8ClampedArray", "Int16Array", "Uint16Array", "Int32Array", "Uint32Array",
  "BigInt64Array", "BigUint64Array", "Float16Array", "Float32Array", "Float64Array",
];
const ADDED = ["Buffer", "TextDecoder", "TextEncoder", "URL", "URLSearchParams", "atob", "btoa", "crypto", "structuredClone"];

const prototypeOf = Object.getPrototypeOf;

const functionPrototypes = () =>
  [function () {}, async function () {}, function* () {}, async function* () {}].map(prototypeOf);

// Objects that no name leads to.
const hidden = () => {
  const values = [
    [][Symbol.iterator](),
    ""[Symbol.iterator](),
    new Map()[Symbol.iterator](),
    new Set()[Symbol.iterator](),
    "a".matchAll(/a/g),
    [].values().map((item) => item),
    Iterator.from({ next() {} }),
    (function* () {})(),
    (async function* () {})(),
  ];
  return [...values.map(prototypeOf), ...functionPrototypes()];
};

// A frozen prototype makes `error.name = …` an error too, as if the error's own name were frozen. So what people do
// set on their own objects becomes an accessor, which sets the object's own.
const allowOwn = (prototype, keys) => {
  for (const key of keys) {
    const found = Reflect.getOwnPropertyDescriptor(prototype, key);
    if (found === undefined || !("value" in found) || !found.configurable) continue;
    const { value } = found;
    Object.defineProperty(prototype, key, {
      get: () => value,
      set(own) {
        if (this === prototype) throw new TypeError(`'${String(key)}' is read-only`);
        Object.defineProperty(this, key, { value: own, writable: true, enumerable: true, configurable: true });
      },
      enumerable: false,
      configurable: false,
    });
  }
};

// The engine passes on an error that a built-in function throws as the handler of a promise, without a frame of JavaScript
// that the host would see. So each handler has one around it.
const { then: engineThen } = Promise.prototype;
const applyTo = Reflect.apply;
const framed = (handler) => (typeof handler === "function" ? (value) => handler(value) : handler);
const promises = {
  then(onFulfilled, onRejected) {
    return applyTo(engineThen, this, [framed(onFulfilled), framed(onRejected)]);
  },
};
define(Promise.prototype, "then", promises.then);

const freezeAll = (roots) => {
  const { ownKeys, getOwnPropertyDescriptor } = Reflect;
  const { freeze } = Object;
  const seen = new Set();
  const found = [];
  const meet = (item) => {
    const isObject = (typeof item === "object" && item !== null) || typeof item === "function";
    if (!isObject || seen.has(item)) return;
    seen.add(item);
    found.push(item);
  };
  roots.forEach(meet);
  // Some thousand objects, before the first run of any module: so without iterators, and no closer a look than is needed.
  for (let next = 0; next < found.length; next += 1) {
    const item = found[next];
    meet(prototypeOf(item));
    const keys = ownKeys(item);
    // Most are functions with these two, a number and a text.
    const isPlain = typeof item === "function" && keys.length === 2 && keys[0] === "length" && keys[1] === "name";
    for (let index = isPlain ? 2 : 0; index < keys.length; index += 1) {
      const property = getOwnPropertyDescriptor(item, keys[index]);
      meet(property.value);
      meet(property.get);
      meet(property.set);
    }
    freeze(item);
  }
};

const harden = () => {
  const allowed = new Set([...LANGUAGE, ...ADDED]);
  for (const key of Reflect.ownKeys(globalThis))
    if (!allowed.has(key) && !Reflect.deleteProperty(globalThis, key)) throw new Error(`${String(key)} stays`);
  native.noteError.internal = InternalError.prototype;
  Error.prepareStackTrace = native.noteError;
  // The host does not see the first error that is caught: see host/errors.rs.
  try {
    throw undefined;
  } catch {}
  for (const key of ["captureStackTrace", "prepareStackTrace", "stackTraceLimit"])
    if (!Reflect.deleteProperty(Error, key)) throw new Error(`${key} stays`);

  const functions = functionPrototypes();
  const blocked = function Function() {
    throw new TypeError("code cannot be made from text");
  };
  blocked.prototype = functions[0];
  for (const prototype of functions)
    Object.defineProperty(prototype, "constructor", { value: blocked, writable: false, enumerable: false, configurable: true });

  allowOwn(Object.prototype, Reflect.ownKeys(Object.prototype));
  const names = [...LANGUAGE, ...ADDED].filter((name) => typeof globalThis[name] === "function");
  for (const name of names) {
    const { prototype } = globalThis[name];
    if (prototype !== undefined && prototype !== Object.prototype)
      allowOwn(prototype, ["constructor", "toString", "valueOf", "toJSON", "name", "message"]);
  }
  freezeAll([globalThis, logger, ...hidden()]);
};

