/** Listening sessions at test addresses. A session goes on when its drawer is closed: the frame of the page shows it. */

import { segment } from "../api/client";
import { get, send } from "../api/request";

export interface Capture {
  number: number;
  at: string;
  verdict: "accepted" | "filtered" | "declined" | "refused" | "nonTrigger";
  aside?: string;
  refused?: string;
  reason?: string;
  bytes: number;
  answer: { status: number; headers: [string, string][]; body: unknown };
  results?: Record<string, unknown>;
  payload: Record<string, unknown>;
}

interface Subscription {
  state: string;
  error?: string;
  nextAt?: string;
}

interface Session {
  listening: boolean;
  since: string;
  until: string;
  left: number;
  testUrl?: string;
  subscription?: Subscription;
  captures: Capture[];
}

const KEY = "cogwork-listening";
/** The pause before captures are read again after an error, in milliseconds. */
const PAUSE = 2000;

/** The session of one automation, with its captures as they come. */
export class Listener {
  session = $state<Session>();
  captures = $state<Capture[]>([]);
  error = $state<unknown>();
  private following: AbortController | undefined;
  private readonly path: string;

  constructor(readonly id: string) {
    this.path = `/automations/${segment(id)}/listen`;
  }

  get listening(): boolean {
    return this.session?.listening ?? false;
  }

  /** Reads the session, and follows it while it lasts. */
  load = async (): Promise<void> => {
    try {
      this.take(await get<Session>(this.path), true);
    } catch (error) {
      const { code } = error as { code?: string };
      this.session = undefined;
      this.error = code === "not_listening" ? undefined : error;
    }
  };

  begin = async (): Promise<void> => {
    this.following?.abort();
    this.take(await send<Session>("POST", this.path, { timeout: "10m", count: 100 }), true);
  };

  end = async (): Promise<void> => {
    this.take(await send<Session>("DELETE", this.path), false);
  };

  private take(found: Session, whole: boolean): void {
    // The time of the same session differs by the drift between two clocks.
    const isOther = Math.abs(Date.parse(found.since) - Date.parse(this.session?.since ?? "")) > 500;
    if (whole || isOther) {
      this.captures = [];
    }
    const last = this.captures.at(-1)?.number ?? 0;
    this.captures = [...this.captures, ...found.captures.filter((one) => one.number > last)];
    this.session = found;
    this.error = undefined;
    remember(this.id, found.listening);
    if (found.listening && this.following === undefined) {
      void this.follow();
    }
  }

  private async follow(): Promise<void> {
    const own = (this.following = new AbortController());
    while (this.listening && !own.signal.aborted) {
      try {
        const last = this.captures.at(-1)?.number ?? 0;
        // Only captures end the wait: a subscription that is being made is looked at again and again.
        const isPending = this.session?.subscription !== undefined && this.session.subscription.state !== "active";
        if (isPending) {
          await new Promise((done) => setTimeout(done, PAUSE / 2));
        }
        this.take(await get<Session>(`${this.path}?wait=${!isPending}&after=${last}`, own.signal), false);
      } catch (error) {
        if (own.signal.aborted) {
          break;
        }
        if ((error as { code?: string }).code === "not_listening") {
          // The daemon was started anew: its captures are gone.
          this.session = undefined;
          remember(this.id, false);
          break;
        }
        await new Promise((done) => setTimeout(done, PAUSE));
      }
    }
    if (this.following === own) {
      this.following = undefined;
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
  listeners.ids = listening ? [...others, id] : others;
  localStorage.setItem(KEY, JSON.stringify(listeners.ids));
}

export const listeners = new Listeners();
