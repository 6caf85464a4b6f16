/** Copies a text. False where the page has no access to the clipboard: over plain HTTP to another host, or refused. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
