/** Saves bytes as a file. They have a type that no browser opens. */
export function download(bytes: BlobPart, name: string): void {
  const address = URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), LIFETIME);
}

/** The time after which the bytes are released, in milliseconds: the browser has read them by then. */
const LIFETIME = 60_000;
