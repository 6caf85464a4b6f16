// A service of Restate. Arguments: workload (asynchronous, steps, fibs), number of steps, port.

// The SDK expects this function of Node.js 22.
Promise.withResolvers ??= function () {
  let resolve, reject;
  const promise = new Promise((first, second) => ([resolve, reject] = [first, second]));
  return { promise, resolve, reject };
};
const restate = await import("@restatedev/restate-sdk");

const [workload, count, port] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const fib = (n) => (n < 2 ? n : fib(n - 1) + fib(n - 2));
const add = (total) => (workload === "fibs" ? fib(10) : total + 1);

const webhook = restate.service({
  name: "webhook",
  handlers: {
    measured: async (context, order) => {
      let total = 0;
      for (let number = 0; number < count; number += 1) {
        total = await context.run("add", () => add(total));
      }
      return { total };
    },
  },
});
restate.serve({ services: [webhook], port, host: "127.0.0.1" });
