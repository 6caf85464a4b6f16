/** Listening sessions at test addresses. A session continues when its drawer is closed: the frame of the page shows it. */

import { Problem, api, data } from "../api/client";
import { live } from "../api/live.svelte";
import type { Capture, Listening } from "../api/types";
import { automationOf } from "./several";

const KEY = "cogwork-listening";
/** The length of a session, and the maximum number of requests that it captures. */
const SESSION = { timeout: "10m", count: 100 };
/** The largest difference of the starts that the daemon reports for one session, in milliseconds: its two clocks drift. */
const DRIFT = 500;

/** The session of one automation, with its captures as they come. */
export class Listener {
  session = $state<Listening>();
  captures = $state<Capture[]>([]);
  error = $state<unknown>();
  private unfollow: (() => void) | undefined;
  private watchers = 0;
  private reading = false;
  private again = false;
  private readonly params: { path: { id: string } };

  constructor(readonly id: string) {
    this.params = { path: { id } };
  }

  get listening(): boolean {
    return this.session?.listening ?? false;
  }

  /** Follows the session, also one that another browser or the command line begins, until the result is called. */
  watch = (): (() => void) => {
    this.watchers += 1;
    this.follow();
    void this.read();
    return () => {
      this.watchers -= 1;
      this.follow();
    };
  };

  begin = async (): Promise<void> => {
    this.take(await data(api.POST("/api/v1/automations/{id}/listen", { params: this.params, body: SESSION })), 0);
  };

  end = async (): Promise<void> => {
    const last = this.captures.at(-1)?.number ?? 0;
    this.take(await data(api.DELETE("/api/v1/automations/{id}/listen", { params: this.params })), last);
  };

  /** Reads the session, with the captures after the last known one. Calls meanwhile share one more read. */
  read = async (): Promise<void> => {
    if (this.reading) {
      this.again = true;
      return;
    }
    this.reading = true;
    do {
      this.again = false;
      const after = this.captures.at(-1)?.number ?? 0;
      try {
        const params = { ...this.params, query: { after } };
        this.take(await data(api.GET("/api/v1/automations/{id}/listen", { params })), after);
      } catch (error) {
        this.fail(error);
      }
    } while (this.again);
    this.reading = false;
  };

  /** Takes a session with its captures after a number. */
  private take(found: Listening, after: number): void {
    const since = this.session?.since;
    const isOther = since !== undefined && Math.abs(Date.parse(found.since) - Date.parse(since)) > DRIFT;
    if (isOther) {
      this.captures = [];
    }
    if (!isOther || after === 0) {
      const last = this.captures.at(-1)?.number ?? 0;
      this.captures = [...this.captures, ...found.captures.filter(({ number }) => number > last)];
    }
    this.session = found;
    this.error = undefined;
    remember(this.id, found.listening);
    this.follow();
    if (isOther && after > 0) {
      // The captures of another session count from 1 again.
      void this.read();
    }
  }

  private fail(error: unknown): void {
    if (error instanceof Problem && error.code === "not_listening") {
      // Nobody has listened since the daemon started: earlier captures are gone.
      [this.session, this.captures, this.error] = [undefined, [], undefined];
      remember(this.id, false);
      this.follow();
    } else {
      this.error = error;
    }
  }

  /** Follows the topic while a component watches or the session lasts. */
  private follow(): void {
    if (this.watchers > 0 || this.listening) {
      this.unfollow ??= live.follow(`listen:${automationOf(this.id)}`, () => void this.read());
    } else {
      this.unfollow?.();
      this.unfollow = undefined;
    }
  }
}

class Listeners {
  /** The automations at whose addresses this browser listens. */
  ids = $state<string[]>(stored());
  private readonly all = new Map<string, Listener>();

  of(id: string): Listener {
    const found = this.all.get(id) ?? new Listener(id);
    this.all.set(id, found);
    return found;
  }
}

function stored(): string[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(found) ? found.filter((one) => typeof one === "string") : [];
  } catch {
    return [];
  }
}

function remember(id: string, listening: boolean): void {
  const others = listeners.ids.filter((one) => one !== id);
  if (listening !== listeners.ids.includes(id)) {
    listeners.ids = listening ? [...others, id] : others;
    localStorage.setItem(KEY, JSON.stringify(listeners.ids));
  }
}

export const listeners = new Listeners();
