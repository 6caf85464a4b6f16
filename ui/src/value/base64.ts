/** Bytes as base64 (RFC 4648, section 4), and back. */

/** The maximum number of bytes that one call converts: its arguments are on the stack. */
const CHUNK = 0x8000;

export function toBase64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += CHUNK) {
    text += String.fromCharCode(...bytes.subarray(at, at + CHUNK));
  }
  return btoa(text);
}

export const fromBase64 = (text: string): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

/** The text of UTF-8 bytes in base64; undefined for other bytes. */
export function textOf(text: string): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(fromBase64(text));
  } catch {
    return undefined;
  }
}
