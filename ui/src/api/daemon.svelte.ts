/** The permissions of the daemon, for all pages. */

import { api, data } from "./client";

class Daemon {
  /** True if changes of project files are refused, by the setting `ui.readOnly`. */
  readOnly = $state(false);

  async read(): Promise<void> {
    this.readOnly = (await data(api.GET("/api/v1/status"))).readOnly;
  }
}

export const daemon = new Daemon();

/** The reason at a control that changes files, while the daemon is read-only. */
export const READ_ONLY = "This daemon changes no files: its setting ui.readOnly is on.";
