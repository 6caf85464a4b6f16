// URL and URLSearchParams. The host reads and writes addresses; here is what holds them.

const PARTS = ["href", "origin", "protocol", "username", "password", "host", "hostname", "port", "pathname", "search", "hash"];

// Set where a change of the parameters has to reach an address.
let watch;

class URLSearchParams {
  #pairs;
  #changed = () => {};

  static {
    watch = (parameters, changed) => {
      parameters.#changed = changed;
    };
  }

  constructor(from = "") {
    if (from !== null && typeof from === "object") {
      const pairs = typeof from[Symbol.iterator] === "function" ? [...from] : Object.entries(from);
      this.#pairs = pairs.map(([key, value]) => [wellFormed(key), wellFormed(value)]);
    } else {
      const text = wellFormed(from);
      this.#pairs = native.parseQuery(text.startsWith("?") ? text.slice(1) : text);
    }
  }

  get size() {
    return this.#pairs.length;
  }

  append(key, value) {
    this.#pairs.push([wellFormed(key), wellFormed(value)]);
    this.#changed();
  }

  delete(key, value) {
    const goes = ([own, given]) => own === String(key) && (value === undefined || given === String(value));
    this.#pairs = this.#pairs.filter((pair) => !goes(pair));
    this.#changed();
  }

  get(key) {
    return this.#pairs.find(([own]) => own === String(key))?.[1] ?? null;
  }

  getAll(key) {
    return this.#pairs.filter(([own]) => own === String(key)).map(([, value]) => value);
  }

  has(key, value) {
    return this.#pairs.some(([own, given]) => own === String(key) && (value === undefined || given === String(value)));
  }

  set(key, value) {
    const first = this.#pairs.findIndex(([own]) => own === String(key));
    if (first < 0) {
      this.append(key, value);
      return;
    }
    this.#pairs[first] = [wellFormed(key), wellFormed(value)];
    this.#pairs = this.#pairs.filter(([own], index) => index <= first || own !== String(key));
    this.#changed();
  }

  sort() {
    this.#pairs.sort(([left], [right]) => (left < right ? -1 : left > right ? 1 : 0));
    this.#changed();
  }

  forEach(visit, self) {
    for (const [key, value] of this.#pairs) visit.call(self, value, key, this);
  }

  *entries() {
    for (const [key, value] of this.#pairs) yield [key, value];
  }

  *keys() {
    for (const [key] of this.#pairs) yield key;
  }

  *values() {
    for (const [, value] of this.#pairs) yield value;
  }

  [Symbol.iterator]() {
    return this.entries();
  }

  toString() {
    return native.writeQuery(this.#pairs);
  }

  toJSON() {
    return this.toString();
  }

  get [Symbol.toStringTag]() {
    return "URLSearchParams";
  }
}
define(globalThis, "URLSearchParams", URLSearchParams);

class URL {
  #parts;
  #parameters;

  static #read(text, base) {
    const given = base === undefined ? undefined : wellFormed(base);
    return native.parseUrl(wellFormed(text), given) ?? undefined;
  }

  static canParse(text, base) {
    return URL.#read(text, base) !== undefined;
  }

  static parse(text, base) {
    return URL.canParse(text, base) ? new URL(text, base) : null;
  }

  static {
    PARTS.forEach((name, index) => {
      Object.defineProperty(URL.prototype, name, {
        get() {
          return this.#parts[index];
        },
        set: name === "origin" ? undefined : function set(value) {
          this.#change(name, wellFormed(value));
        },
        enumerable: true,
        configurable: true,
      });
    });
  }

  constructor(text, base) {
    this.#parts = URL.#read(text, base);
    if (this.#parts === undefined) throw new TypeError(`\`${text}\` is no address`);
  }

  #change(name, value) {
    const parts = name === "href" ? URL.#read(value) : native.changeUrl(this.#parts[0], name, value);
    if (parts === undefined) throw new TypeError(`\`${value}\` is no address`);
    this.#parts = parts;
    this.#parameters = undefined;
  }

  get searchParams() {
    if (this.#parameters === undefined) {
      const parameters = new URLSearchParams(this.search);
      watch(parameters, () => {
        this.#parts = native.changeUrl(this.#parts[0], "search", parameters.toString());
      });
      this.#parameters = parameters;
    }
    return this.#parameters;
  }

  toString() {
    return this.href;
  }

  toJSON() {
    return this.href;
  }

  get [Symbol.toStringTag]() {
    return "URL";
  }
}
define(globalThis, "URL", URL);

