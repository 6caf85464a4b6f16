// Bytes: Buffer as far as people need it, TextEncoder, TextDecoder, atob, btoa.

// True while a result is collected: then bytes and large integers go beside the JSON, not into it.
let collecting = false;

const define = (target, name, value) =>
  Object.defineProperty(target, name, { value, writable: true, enumerable: false, configurable: true });

// A text that the host can take: without halves of characters.
const wellFormed = (value) => String(value).toWellFormed();

// The bytes that something holds; undefined if it holds none.
const bytesOf = (value) => {
  if (value instanceof Uint8Array) return value;
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  return ArrayBuffer.isView(value) ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength) : undefined;
};

// Bytes in the form in which the host takes them.
const { toBase64, toHex } = Uint8Array.prototype;
const pack = (bytes) => toBase64.call(bytes);

const fromBase64 = (text) => Uint8Array.fromBase64(text, { alphabet: /[-_]/.test(text) ? "base64url" : "base64" });

const fromLatin1 = (text) => {
  const bytes = new Uint8Array(text.length);
  for (let index = 0; index < text.length; index += 1) bytes[index] = text.charCodeAt(index);
  return bytes;
};

const toLatin1 = (bytes) => {
  let text = "";
  for (let from = 0; from < bytes.length; from += 4096)
    text += String.fromCharCode(...bytes.subarray(from, from + 4096));
  return text;
};

const codecs = {
  __proto__: null,
  utf8: { encode: (text) => native.encodeUtf8(wellFormed(text)), decode: (bytes) => native.decode(pack(bytes), "utf-8", false, true) },
  latin1: { encode: fromLatin1, decode: toLatin1 },
  hex: { encode: (text) => Uint8Array.fromHex(text), decode: (bytes) => toHex.call(bytes) },
  base64: { encode: fromBase64, decode: pack },
  base64url: {
    encode: fromBase64,
    decode: (bytes) => toBase64.call(bytes, { alphabet: "base64url", omitPadding: true }),
  },
};
codecs["utf-8"] = codecs.utf8;
codecs.binary = codecs.latin1;
codecs.ascii = codecs.latin1;

const codec = (name = "utf8") => {
  const found = codecs[String(name).toLowerCase()];
  if (found === undefined)
    throw new TypeError(`\`${name}\` is no encoding of Buffer: take utf8, latin1, hex, base64 or base64url`);
  return found;
};

class Buffer extends Uint8Array {
  static from(value, second, length) {
    if (typeof value === "string") {
      return new Buffer(codec(second).encode(value));
    }
    if (value instanceof ArrayBuffer) return new Buffer(value, second, length);
    const bytes = bytesOf(value);
    if (bytes !== undefined) return new Buffer(bytes);
    if (typeof value === "object" && value !== null) return new Buffer(Array.from(value));
    throw new TypeError("Buffer.from takes a text, an array of bytes, a Uint8Array or an ArrayBuffer");
  }

  static alloc(size) {
    return new Buffer(size);
  }

  static concat(list) {
    const parts = Array.from(list, bytesOf);
    const whole = new Buffer(parts.reduce((sum, part) => sum + part.byteLength, 0));
    let at = 0;
    for (const part of parts) {
      whole.set(part, at);
      at += part.length;
    }
    return whole;
  }

  static byteLength(text, encoding) {
    return typeof text === "string" ? codec(encoding).encode(text).byteLength : text.byteLength;
  }

  static isBuffer(value) {
    return value instanceof Buffer;
  }

  equals(other) {
    return this.length === other.length && this.every((byte, index) => byte === other[index]);
  }

  toString(encoding, start = 0, end = this.length) {
    const part = start === 0 && end === this.length ? this : this.subarray(start, end);
    return codec(encoding).decode(part);
  }
}
define(globalThis, "Buffer", Buffer);

define(Uint8Array.prototype, "toJSON", function toJSON() {
  return collecting ? native.keep(pack(this)) : { ...this };
});
define(ArrayBuffer.prototype, "toJSON", function toJSON() {
  return collecting ? native.keep(pack(new Uint8Array(this))) : {};
});
define(BigInt.prototype, "toJSON", function toJSON() {
  const value = BigInt.prototype.valueOf.call(this);
  if (!collecting) throw new TypeError("a BigInt is no JSON: make it a text with String(…) or a number with Number(…)");
  if (BigInt.asIntN(64, value) !== value && BigInt.asUintN(64, value) !== value)
    throw new RangeError("a BigInt in a result has to fit into 64 bits: make it a text with String(…)");
  return native.integer(String(value));
});

define(globalThis, "TextEncoder", class TextEncoder {
  get encoding() {
    return "utf-8";
  }

  encode(text = "") {
    return new Uint8Array(native.encodeUtf8(wellFormed(text)));
  }
});

define(globalThis, "TextDecoder", class TextDecoder {
  #encoding;
  #fatal;
  #keepsBom;

  constructor(label = "utf-8", { fatal = false, ignoreBOM = false } = {}) {
    this.#encoding = native.encoding(wellFormed(label)) ?? undefined;
    if (this.#encoding === undefined) throw new RangeError(`\`${label}\` is no encoding that is known`);
    this.#fatal = Boolean(fatal);
    this.#keepsBom = Boolean(ignoreBOM);
  }

  get encoding() {
    return this.#encoding;
  }

  get fatal() {
    return this.#fatal;
  }

  get ignoreBOM() {
    return this.#keepsBom;
  }

  decode(input = new Uint8Array(0)) {
    const bytes = bytesOf(input);
    if (bytes === undefined) throw new TypeError("TextDecoder.decode takes bytes: a Uint8Array or an ArrayBuffer");
    return native.decode(pack(bytes), this.#encoding, this.#fatal, this.#keepsBom);
  }
});

define(globalThis, "atob", (text) => {
  try {
    return toLatin1(Uint8Array.fromBase64(String(text)));
  } catch {
    throw new TypeError("atob takes a text in base64");
  }
});

define(globalThis, "btoa", (text) => {
  const given = String(text);
  for (let index = 0; index < given.length; index += 1)
    if (given.charCodeAt(index) > 255)
      throw new TypeError("btoa takes characters up to U+00FF: encode the text with Buffer.from(text).toString(\"base64\")");
  return pack(fromLatin1(given));
});

