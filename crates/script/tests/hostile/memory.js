//# memory heaps that grow
//: const a = []; for (;;) a.push({});
//: const a = []; for (;;) a.push(a.slice());
//: const a = []; for (;;) a.push([1, 2, 3]);
//: const a = []; for (;;) a.push(() => a);
//: const a = []; for (;;) a.push("x".repeat(1000) + a.length);
//: const a = []; for (;;) a.push(Symbol(String(a.length)));
//: const a = []; for (;;) a.push(Symbol.for(String(a.length)));
//: const a = []; for (;;) a.push(new Date());
//: const a = []; for (;;) a.push(/a/g);
//: const a = []; for (;;) a.push(new Error("x"));
//: const a = []; for (;;) a.push(new Map([[a, a]]));
//: const a = []; for (;;) a.push(new Proxy({}, {}));
//: const a = []; for (;;) a.push((function* () { yield a; })());
//: const a = []; for (;;) a.push(Promise.resolve(a));
//: const a = []; for (;;) a.push(new Promise(() => {}));
//: const a = []; for (;;) a.push(class {});
//: const a = []; for (;;) a.push(new URL("https://a.b/"));
//: const a = []; for (;;) a.push(structuredClone({ a: 1 }));
//: const a = []; for (;;) a.push(BigInt(a.length) ** 100n);
//: const m = new Map(); for (let i = 0; ; i++) m.set(i, i);
//: const m = new Map(); for (let i = 0; ; i++) m.set({}, i);
//: const s = new Set(); for (let i = 0; ; i++) s.add(`k${i}`);
//: const o = {}; for (let i = 0; ; i++) o[`k${i}`] = i;
//: const o = {}; for (let i = 0; ; i++) o[Symbol()] = i;
//: const o = {}; for (let i = 0; ; i++) Object.defineProperty(o, i, { get() {} });
//: const w = new WeakMap(), keys = []; for (;;) { const k = {}; keys.push(k); w.set(k, k); }
//: let o = null; for (;;) o = { o };
//: let o = {}; for (;;) o = Object.create(o);
//: let f = () => 1; for (;;) { const g = f; f = () => g; }
//: let p = Promise.resolve(); for (;;) p = p.then(() => {});
//: for (;;) Promise.resolve().then(() => {});
//: const a = [...(function* () { for (;;) yield 1; })()];
//: const a = Array.from((function* () { for (;;) yield 1; })());
//: const a = (function* () { for (;;) yield 1; })().toArray();
//: new Map((function* () { for (let i = 0; ; i++) yield [i, i]; })());
//: new Set((function* () { for (let i = 0; ; i++) yield i; })());
//: Object.fromEntries((function* () { for (let i = 0; ; i++) yield [i, i]; })());
//: Math.max(...(function* () { for (;;) yield 1; })());
//: new URLSearchParams((function* () { for (;;) yield ["a", "b"]; })());
//: Buffer.from((function* () { for (;;) yield 1; })());
//: Object.groupBy((function* () { for (let i = 0; ; i++) yield i; })(), (i) => i);
//: const a = [1]; for (const x of a) a.push(x, x);
//: const s = new Set([0]); for (const x of s) s.add(x + 1);
//: const p = new URLSearchParams("a=1"); for (const [k] of p) p.append(k, k);
//: const h = crypto.createHmac("sha256", "k"); for (;;) h.update("x".repeat(100000));
//: return new Array(1e7).fill().map(() => ({}));
//: return new Array(2e7).fill(0);
//: return Array.from({ length: 1e7 }, (x, i) => [i]);
//: return JSON.parse("[" + "[],".repeat(2e6) + "[]]");
//: const a = ["x"]; for (;;) a.push(a.join(a.length));
//: const a = []; for (let i = 0; ; i++) a[i * 1000] = new Array(1000).fill(i);
//: const a = []; const grow = async () => { for (;;) { await null; a.push(new Array(100).fill(a)); } }; await grow();
$X

//# memory memory that is wanted again and again
//: for (;;) { try { const a = []; for (;;) a.push(new Array(1000).fill(1)); } catch {} }
//: for (let i = 0; i < 50; i++) { try { const a = []; for (;;) a.push(new ArrayBuffer(2 ** 20)); } catch {} } return "went on";
//: const a = []; for (;;) { try { a.push(new ArrayBuffer(2 ** 16)); } catch { a.length = 0; } }
//: try { const a = []; for (;;) a.push({}); } catch (e) { throw e; }
//: try { const a = []; for (;;) a.push({}); } finally { return "went on"; }
//: const a = []; const go = () => { try { for (;;) a.push({}); } catch { go(); } }; go();
//: await Promise.resolve().then(() => { const a = []; for (;;) a.push({}); }).catch(() => "went on");
//: const a = []; try { for (;;) a.push({}); } catch { return a.length > 0; }
//: const a = []; try { for (;;) a.push("x".repeat(1000) + a.length); } catch { return a; }
//: new Proxy({}, { get(t, k) { const a = []; for (;;) a.push({}); } }).x;
//: throw { get message() { const a = []; for (;;) a.push({}); } };
//: return { get data() { const a = []; for (;;) a.push({}); } };
//: return { toJSON() { const a = []; for (;;) a.push({}); } };
$X

//# memory module grows while it is evaluated
const a = [];
for (;;) a.push({});
export default () => 1;

//# overrun|memory|died heaps that grow where the engine does not survive it, or finds no way out
//: for (;;) (async () => { await null; })();
//: await Promise.all((function* () { for (;;) yield 1; })());
//: const a = []; for (;;) a.push(a.map.bind(a));
$X

//# overrun|memory|died|error heaps that grow until the engine may lack the memory for the error
//: let f = () => 1; for (let i = 0; i < 1e5; i++) f = f.bind(null); f();
$X

//# overrun|memory memory that is given back, and wanted again and again
//: for (;;) { try { "x".repeat(2 ** 29); } catch {} }
//: await Array.fromAsync((function* () { for (;;) yield 1; })());
//: const w = new WeakMap(); for (;;) w.set({}, new Array(1000));
//: for (;;) { const ring = []; ring.push(ring, new Array(10000).fill(1)); }
$X

//# memory built-in functions that are refused memory where no function of the code's own is on the stack
return $X
//: Promise.resolve(2 ** 28).then(String.prototype.repeat.bind("x")).then(() => "went on", () => "went on");
//: Promise.resolve({ then: String.prototype.repeat.bind("x", 2 ** 28) }).catch(() => "went on");
//: (Promise.resolve(2 ** 28).then(String.prototype.repeat.bind("x")), "went on");
//: Promise.reject(2 ** 28).catch(String.prototype.repeat.bind("x")).finally(() => {}).catch(() => "went on");

//# memory|error|fine an iterator's `return` that is refused memory while its loop is left by an error
const endless = { next: () => ({ value: 1, done: false }), return: String.prototype.repeat.bind("x", 2 ** 28) };
endless[Symbol.iterator] = () => endless;
try { $X } catch { return "went on" }
//: new Map(endless)
//: for (const one of endless) throw one;
//: Iterator.from(endless).forEach((one) => { throw one });
