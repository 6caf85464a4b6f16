/** Logins at an identity provider: the redirect to it, and the address of the redirect back. */

import { api, data } from "./api/client";

/** The page that was open when a login began, for the time of the login. */
const PAGE = "cogwork-login-page";

/** The parameters with which the provider sent a person back, or its reason for not logging them in. */
export type Returned = { code: string; state: string; iss?: string } | { refused: string };

/** Reads the query of the address; `undefined` if it is not from a provider. */
export function returned(query: string): Returned | undefined {
  const found = new URLSearchParams(query);
  const [code, state, error] = [found.get("code"), found.get("state"), found.get("error")];
  if (error !== null) {
    return { refused: found.get("error_description") ?? error };
  }
  if (code === null || state === null) {
    return undefined;
  }
  const iss = found.get("iss");
  return { code, state, ...(iss === null ? {} : { iss }) };
}

/** The page to show after a login: one of this origin, never a page of a login. */
export function pageAfter(kept: string | null): string {
  return kept !== null && /^\/(?![/\\])/.test(kept) && !/^\/login\b/.test(kept) ? kept : "/";
}

/** The page that was open when the login began. It is returned once. */
export function takePage(): string {
  const kept = sessionStorage.getItem(PAGE);
  sessionStorage.removeItem(PAGE);
  return pageAfter(kept);
}

/** The name of the identity provider; `undefined` if the daemon has none. */
export async function provider(): Promise<string | undefined> {
  return (await data(api.GET("/api/v1/session/provider"))).name;
}

/** Begins a login, and leaves for the page of the provider. */
export async function signIn(): Promise<void> {
  const { url } = await data(api.POST("/api/v1/session/provider"));
  sessionStorage.setItem(PAGE, location.pathname + location.search);
  location.assign(url);
}
