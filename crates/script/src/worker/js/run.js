// The functions that the host calls: a run, its result as JSON, and the error that it threw.

// Puts the bytes of files where they belong.
const attach = (head, argument, files) => {
  const roots = { argument, configVars: head.configVars, state: head.state };
  head.files.forEach((path, index) => {
    let file = roots;
    for (const key of path) file = file[key];
    file.data = new Buffer(files[index]);
  });
};

// Says what is wrong where code looks for bytes that it was not given.
const refuse = (head, argument) => {
  const roots = { argument, configVars: head.configVars, state: head.state };
  for (const [path, message] of head.unread) {
    let file = roots;
    for (const key of path) file = file[key];
    const get = () => {
      throw new Error(message);
    };
    Object.defineProperty(file, "data", { get, enumerable: true, configurable: true });
  }
};

// A step's result, of what its code returned as JSON: the same as `pool/sent.rs` makes of it.
const resultOf = (returned) => {
  if (typeof returned !== "object" || returned === null || Array.isArray(returned)) return returned;
  const { statusCode } = returned;
  const hasStatus = Number.isInteger(statusCode) && statusCode >= -(2 ** 63) && statusCode < 2 ** 63;
  const isResponse = hasStatus || (Object.hasOwn(returned, "body") && !Object.hasOwn(returned, "data"));
  return !isResponse && Object.hasOwn(returned, "data") ? returned.data : returned;
};

// Puts the results of runs right before this one where they belong: the keys are there already, in their order.
const fill = (keys, argument, earlier) => {
  keys.forEach((key, index) => {
    argument[key] = { results: resultOf(earlier[index]), error: null, ok: true };
  });
};

const nothingExported = "the code exports no function: begin it with `export default async (context, stepResults) => {`";
const nothingForTrigger = "the code exports no function: begin it with `export default async (context, payload) => {`";

// Calls the export of the module. The result may be a promise.
const call = (exported, module, untouched, isTrigger, context, argument) => {
  const assigned = module.exports === untouched ? undefined : module.exports;
  const chosen = exported === undefined ? assigned : exported;
  if (typeof chosen !== "function") throw new TypeError(isTrigger ? nothingForTrigger : nothingExported);
  const result = chosen(context, argument);
  const isThenable = typeof result === "object" && result !== null && typeof result.then === "function";
  return isThenable ? Promise.resolve(result) : result;
};

// `head` is what few runs have: see `protocol/value.rs`.
const run = (factory, isTrigger, executionId, stepId, startedAt, argument, head = nothing, files, earlier) => {
  if (files !== undefined) attach(head, argument, files);
  if (head.unread !== undefined) refuse(head, argument);
  if (earlier !== undefined) fill(head.earlier, argument, earlier);
  const context = contextOf(executionId, stepId, startedAt, head);
  const module = { exports: {} };
  const untouched = module.exports;
  const loaded = factory(module, untouched);
  return loaded instanceof Promise
    ? loaded.then((exported) => call(exported, module, untouched, isTrigger, context, argument))
    : call(loaded, module, untouched, isTrigger, context, argument);
};

const collect = (value) => {
  const before = collecting;
  collecting = true;
  try {
    return JSON.stringify(value);
  } finally {
    collecting = before;
  }
};

const { InternalError } = globalThis;

// More than the host takes of a message, which hides secrets before it cuts: 4,096 characters of two units each, and a margin.
const cut = (message) => wellFormed(message.slice(0, 16384));

// The message, the stack, and whether there was no memory.
const describe = (thrown) => {
  try {
    // The engine throws null where there is not even the memory for an error.
    if (thrown === null) return ["the code threw null: it did so itself, or ran out of memory", "", ""];
    const isError = typeof thrown === "object" && thrown !== null && typeof thrown.message === "string";
    if (!isError) return [`the code threw ${cut(show(thrown))}`, "", ""];
    const isMemory = thrown instanceof InternalError && thrown.message === "out of memory";
    const name = wellFormed(thrown.name ?? "Error");
    const message = wellFormed(thrown.message);
    const whole = name === "Error" ? message || name : message ? `${name}: ${message}` : name;
    return [cut(whole), wellFormed(thrown.stack ?? "").slice(0, 16384), isMemory ? "memory" : ""];
  } catch {
    return ["the code threw what cannot be described", "", ""];
  }
};

