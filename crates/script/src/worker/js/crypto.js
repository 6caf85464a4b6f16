// crypto: chance, digests, signatures.

const digestName = (name) => {
  const given = typeof name === "object" && name !== null ? name.name : name;
  return String(given).toLowerCase().replace("-", "");
};

const bytesOrText = (data) => (typeof data === "string" ? codecs.utf8.encode(data) : data);

const needBytes = (data, who) => {
  const bytes = bytesOf(bytesOrText(data));
  if (bytes === undefined) throw new TypeError(`${who} takes a text or bytes`);
  return bytes;
};

const unknownDigest = (name, known) => new TypeError(`\`${String(name)}\` is no digest that is known: take ${known}`);

const createHmac = (name, key) => {
  const secret = needBytes(key, "the key of createHmac");
  const chunks = [];
  const hmac = {
    update(data, encoding) {
      chunks.push(Buffer.from(typeof data === "string" ? codec(encoding).encode(data) : needBytes(data, "update")));
      return hmac;
    },
    digest(encoding) {
      const signature = native.hmac(digestName(name), pack(secret), pack(Buffer.concat(chunks)));
      if (signature === undefined) throw unknownDigest(name, "sha256, sha512, sha384, sha1 or md5");
      const bytes = new Buffer(signature);
      return encoding === undefined ? bytes : bytes.toString(encoding);
    },
  };
  return hmac;
};

define(globalThis, "crypto", {
  randomUUID: () => native.uuid(),

  getRandomValues(target) {
    const bytes = ArrayBuffer.isView(target) ? bytesOf(target) : undefined;
    if (bytes === undefined || target instanceof Float64Array || target instanceof Float32Array)
      throw new TypeError("getRandomValues takes an array of integers, such as a Uint8Array");
    if (bytes.length > 65536) throw new RangeError("getRandomValues gives at most 65,536 bytes at once");
    bytes.set(new Uint8Array(native.random(bytes.length)));
    return target;
  },

  createHmac,

  timingSafeEqual: (one, other) =>
    native.equal(pack(needBytes(one, "timingSafeEqual")), pack(needBytes(other, "timingSafeEqual"))),

  subtle: {
    async digest(name, data) {
      const bytes = bytesOf(data);
      if (bytes === undefined) throw new TypeError("crypto.subtle.digest takes bytes: encode a text with TextEncoder");
      const digest = native.digest(digestName(name), pack(bytes));
      if (digest === undefined) throw unknownDigest(name, "SHA-256, SHA-384, SHA-512 or SHA-1");
      return digest;
    },
  },
});

