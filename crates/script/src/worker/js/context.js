// The first parameter: what a run may know and do.

const show = (value) => {
  if (typeof value === "string") return value;
  if (typeof value === "bigint") return `${value}n`;
  if (value instanceof Error) return `${value.name}: ${value.message}`;
  if (value instanceof Uint8Array) return `Uint8Array(${value.length})`;
  if (typeof value === "object" && value !== null) {
    try {
      return JSON.stringify(value) ?? String(value);
    } catch {
      return Object.prototype.toString.call(value);
    }
  }
  return String(value);
};

// The host cuts lines to 4,096 characters; what it cuts off need not travel.
const line = (parts) => wellFormed(parts.map(show).join(" ").slice(0, 8200));

const logger = {
  debug: (...parts) => native.log(0, line(parts)),
  info: (...parts) => native.log(1, line(parts)),
  warn: (...parts) => native.log(2, line(parts)),
  error: (...parts) => native.log(3, line(parts)),
};

const freezeDeep = (value) => {
  if (value !== null && typeof value === "object" && !ArrayBuffer.isView(value)) {
    for (const key of Object.keys(value)) freezeDeep(value[key]);
    Object.freeze(value);
  }
  return value;
};

const stateKey = (key) => {
  if (typeof key !== "string" || key === "") throw new TypeError("a key of the state is a text");
  return wellFormed(key);
};

// The state as it was when the run began, with what the run has written since.
const stateOf = (head) => {
  const values = new Map(Object.entries(head.state ?? {}));
  const absent = new Set(head.absent);
  const write = (key, value) => {
    if (!native.write(key, value)) throw new RangeError("a run may write 1,000 keys of the state and 8 MiB");
  };
  return Object.freeze({
    get(key) {
      const name = stateKey(key);
      if (values.has(name)) return cloneInto(values.get(name), new Map());
      if (absent.has(name)) return undefined;
      throw new Error(`the state of \`${name}\` is not at hand: write the key out, as in \`context.state.get("${name}")\``);
    },
    set(key, value) {
      const name = stateKey(key);
      const text = collect(value);
      if (text === undefined) throw new TypeError(`there is nothing to set \`${name}\` to: to take it away, call \`state.delete\``);
      write(name, text);
      values.set(name, cloneInto(value, new Map()));
      absent.delete(name);
    },
    delete(key) {
      const name = stateKey(key);
      write(name, undefined);
      values.delete(name);
      absent.add(name);
    },
  });
};

const nothing = Object.freeze({});

// Most code never looks at the state, so it is made when somebody does.
const contextOf = (executionId, stepId, startedAt, head) => {
  let state;
  return Object.freeze({
    logger,
    configVars: head.configVars === undefined ? nothing : freezeDeep(head.configVars),
    executionId,
    stepId,
    startedAt,
    get state() {
      state ??= stateOf(head);
      return state;
    },
  });
};

