/** Places of values as expressions that authors write. */

const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** The expression of the value at a path below a root: `steps.get.results.items[0].id`. */
export function expression(root: string, path: readonly (string | number)[]): string {
  const parts = path.map((part) => {
    if (typeof part === "number") {
      return `[${part}]`;
    }
    return NAME.test(part) ? `.${part}` : `['${part.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}']`;
  });
  return root + parts.join("");
}

/** The template that reads the value at a path below a root: `${{ steps.get.results.items[0].id }}`. */
export const reference = (root: string, path: readonly (string | number)[]): string => `\${{ ${expression(root, path)} }}`;
