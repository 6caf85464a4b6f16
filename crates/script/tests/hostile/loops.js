//# overrun endless loops of each kind
//: while (true) {}
//: for (;;) {}
//: do {} while (true);
//: outer: while (true) { inner: while (true) { continue outer; } }
//: for (let i = 0; i < 1; i -= 1) {}
//: for (let i = 0; i >= 0; i += 1) { i %= 3; }
//: while (Math.random() < 2) { new Date(); }
//: let s = ""; while (true) { s = s.length > 10 ? "" : s + "x"; }
//: while (true) { try { throw 1; } catch {} }
//: while (true) { try { null.x; } catch (e) { e.stack; } finally { continue; } }
//: for (;;) { switch (1) { case 1: continue; default: break; } }
//: while (true) { [1, 2, 3].map((n) => n * 2); }
//: while (true) { JSON.parse("[1,2,3]"); }
//: while (true) { "a,b".split(","); }
//: while (true) { ({ ...{ a: 1 } }); }
//: while (true) { (() => {})(); }
//: while (true) { new (class {})(); }
//: while (true) { `${Math.PI}`; }
//: let n = 0n; while (true) { n = (n + 1n) % 7n; }
//: while (true) { /a+/.test("aaa"); }
//: while (true) { context.executionId; }
//: while (true) { crypto.randomUUID(); }
//: while (true) { new URL("https://a.b/c"); }
//: while (true) { btoa("a"); }
//: while (true) { structuredClone({ a: [1] }); }
//: while (true) { context.logger.info("x"); }
//: while (true) { context.state.set("x", 1); }
//: while (true) { Object.freeze({}); }
//: while (true) { Symbol("x"); }
//: while (true) { Reflect.ownKeys(globalThis); }
$X

//# overrun a loop that hides in something that is called
//: [1].forEach(() => { for (;;) {} });
//: [2, 1].sort(() => { for (;;) {} });
//: "a".replace(/a/, () => { for (;;) {} });
//: "a".replace("a", () => { for (;;) {} });
//: JSON.parse("[1]", () => { for (;;) {} });
//: JSON.stringify([1], () => { for (;;) {} });
//: JSON.stringify({ toJSON() { for (;;) {} } });
//: `${{ toString() { for (;;) {} } }}`;
//: +{ valueOf() { for (;;) {} } };
//: ({ [Symbol.toPrimitive]() { for (;;) {} } }) + 1;
//: ({ get a() { for (;;) {} } }).a;
//: ({ set a(v) { for (;;) {} } }).a = 1;
//: new Proxy({}, { get() { for (;;) {} } }).a;
//: "a" in new Proxy({}, { has() { for (;;) {} } });
//: Object.keys(new Proxy({}, { ownKeys() { for (;;) {} } }));
//: delete new Proxy({}, { deleteProperty() { for (;;) {} } }).a;
//: new (new Proxy(class {}, { construct() { for (;;) {} } }))();
//: new Proxy(() => {}, { apply() { for (;;) {} } })();
//: Object.getPrototypeOf(new Proxy({}, { getPrototypeOf() { for (;;) {} } }));
//: ({}) instanceof { [Symbol.hasInstance]() { for (;;) {} } };
//: [..."a"].concat({ get [Symbol.isConcatSpreadable]() { for (;;) {} } });
//: new Map([[1, 2]]).forEach(() => { for (;;) {} });
//: new Set([1]).union({ size: 1, has: () => false, keys() { for (;;) {} } });
//: Array.from({ length: 1 }, () => { for (;;) {} });
//: new Uint8Array(2).sort(() => { for (;;) {} });
//: new Uint8Array({ get length() { for (;;) {} } });
//: [1].reduce(() => 0, 0), [1, 2].reduce(() => { for (;;) {} });
//: "aa".replaceAll("a", () => { for (;;) {} });
//: "a".split({ [Symbol.split]() { for (;;) {} } });
//: Object.groupBy([1], () => { for (;;) {} });
//: Object.assign({}, { get a() { for (;;) {} } });
//: structuredClone({ get a() { for (;;) {} } });
//: new Date({ [Symbol.toPrimitive]() { for (;;) {} } });
//: new URLSearchParams({ a: { toString() { for (;;) {} } } });
//: context.logger.info({ toJSON() { for (;;) {} } });
//: context.state.set("a", { get b() { for (;;) {} } });
//: class A { static { for (;;) {} } }
//: class A { a = (() => { for (;;) {} })(); } new A();
//: ((a = (() => { for (;;) {} })()) => a)();
//: const { a = (() => { for (;;) {} })() } = {};
//: ((strings) => { for (;;) {} })`a`;
//: for (const x of { [Symbol.iterator]() { for (;;) {} } }) {}
$X

//# overrun iterators without an end
//: for (const x of { [Symbol.iterator]: () => ({ next: () => ({ done: false }) }) }) {}
//: for (const x of (function* () { for (;;) yield 1; })()) {}
//: const [...a] = { [Symbol.iterator]: () => ({ next: () => ({ done: false, get value() { for (;;) {} } }) }) };
//: new Set((function* () { for (;;) yield 1; })());
//: (function* () { for (;;) yield 1; })().forEach(() => {});
//: (function* () { for (;;) yield 1; })().every(() => true);
//: (function* () { for (;;) yield 1; })().filter(() => false).next();
//: (function* () { for (;;) yield 1; })().drop(1e15).next();
//: (function* () { for (;;) yield 1; })().reduce((a) => a, 0);
//: Math.max.apply(null, { length: 5, get 0() { for (;;) {} } });
//: (function* () { for (;;) yield []; })().flatMap((x) => x).next();
//: for await (const x of (async function* () { for (;;) yield 1; })()) {}
//: for await (const x of (function* () { for (;;) yield 1; })()) {}
//: await Array.fromAsync((async function* () { for (;;) { await null; } })());
//: const g = (function* () { try { yield 1; } finally { for (;;) {} } })(); g.next(); g.return();
$X

//# overrun jobs that make jobs
//: const again = () => { Promise.resolve().then(again); }; again();
//: while (true) { await null; }
//: while (true) { await Promise.all([1, 2, 3]); }
//: while (true) { await Promise.race([1, Promise.resolve(2)]); }
//: const spin = async () => { for (;;) await 0; }; spin(); return 1;
//: const spin = async () => { for (;;) await 0; }; spin(); throw new Error("left something to do");
//: await { then(resolve) { resolve(this); } };
//: const t = { get then() { for (;;) {} } }; await t;
//: await { then() { for (;;) {} } };
//: await Promise.reject(1).catch(() => { for (;;) {} });
//: await Promise.resolve().finally(() => { for (;;) {} });
//: await new Promise(() => { for (;;) {} });
//: class P extends Promise { then(...a) { for (;;) {} } } await new P(() => {});
//: Promise.resolve().then(() => { for (;;) {} }); return 1;
$X

//# overrun|memory jobs that pile up while they make jobs, some of which catch that there is no memory
//: const again = () => Promise.resolve().then(again); await again();
//: const again = (e) => Promise.reject(e).catch(again); await again(1);
//: const ping = async () => pong(), pong = async () => { await null; return ping(); }; await ping();
$X

//# overrun an answer that never gets finished
//: return { get data() { for (;;) {} } };
//: return { data: { toJSON() { for (;;) {} } } };
//: return { data: new Proxy({}, { ownKeys() { for (;;) {} } }) };
//: return { data: new Proxy([], { get(t, k) { if (k === "length") for (;;) {} return t[k]; } }) };
//: return new Proxy({}, { get(t, k) { if (k === "then") for (;;) {} } });
//: throw { get message() { for (;;) {} } };
//: throw { message: "a", get name() { for (;;) {} } };
//: throw { message: "a", get stack() { for (;;) {} } };
//: throw new Proxy(new Error("a"), { get() { for (;;) {} } });
//: throw new Proxy(new Error("a"), { getPrototypeOf() { for (;;) {} } });
//: throw { message: "a", name: { toString() { for (;;) {} } } };
//: throw { toJSON() { for (;;) {} } };
$X

//# overrun module loops while the module is evaluated
for (;;) {}
export default () => 1;

//# overrun module loops while the module waits
while (true) await null;
export default () => 1;

//# overrun module loops in a static block of the module
class A { static { for (;;) {} } }
export default () => 1;

//# overrun module loops in the getter of what is exported
export default new Proxy(() => 1, { apply() { for (;;) {} } });

//# overrun|fine expressions that take exponential time
//: /(a+)+$/.test("a".repeat(40) + "!");
//: /(a|a)*$/.test("a".repeat(40) + "!");
//: /(a|aa)+$/.test("a".repeat(60) + "!");
//: /(.*a){25}/.test("a".repeat(24) + "b".repeat(30));
//: /^(([a-z])+.)+[A-Z]([a-z])+$/.test("a".repeat(45));
//: /(x+x+)+y/.test("x".repeat(45));
//: /((a*)*)*b/.test("a".repeat(40));
//: "a".repeat(45).replace(/(a+)+b/g, "");
//: "a".repeat(45).match(/(a+)+b/g);
//: [..."a".repeat(45).matchAll(/(a+)+b/g)];
//: "a".repeat(45).search(/(a+)+b/);
//: "a".repeat(45).split(/(a+)+b/);
//: /(?=(a+)+b)/.test("a".repeat(45));
//: /(?<=(a+)+b)c/.test("a".repeat(45) + "c");
//: /(\w+\s?)*$/.test("word ".repeat(12) + "!".repeat(2));
//: /(?:a?){60}a{60}/.test("a".repeat(59));
//: /(a+)\1+b/.test("a".repeat(5000));
//: /(?<n>a+)+\k<n>b/.test("a".repeat(45));
//: /(a+)+$/iu.test("A".repeat(40) + "!");
//: /([\p{L}]+)+$/u.test("ä".repeat(40) + "!");
$X
