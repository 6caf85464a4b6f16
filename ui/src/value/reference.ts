/** A path as an expression that authors write: `${{ steps.get.results.items[0].id }}`. */

const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** The expression that reads the value at a path below a root such as `steps.get.results`. */
export function reference(root: string, path: readonly (string | number)[]): string {
  const parts = path.map((part) => {
    if (typeof part === "number") {
      return `[${part}]`;
    }
    return NAME.test(part) ? `.${part}` : `[${JSON.stringify(part)}]`;
  });
  return `\${{ ${root}${parts.join("")} }}`;
}
