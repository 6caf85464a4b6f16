/** The list of automations, which several pages show: sent again only when it has changed. */

import { api } from "./client";
import type { Automation, Broken } from "./types";

export interface Automations {
  automations: Automation[];
  broken: Broken[];
}

let known: { etag: string; list: Automations } | undefined;

export async function readAutomations(signal?: AbortSignal): Promise<Automations> {
  const headers = known ? { "if-none-match": known.etag } : {};
  const { data, response } = await api.GET("/api/v1/automations", { headers, ...(signal && { signal }) });
  if (response.status === 304 && known) {
    return known.list;
  }
  const list = data as Automations;
  const etag = response.headers.get("etag");
  known = etag === null ? undefined : { etag, list };
  return list;
}
