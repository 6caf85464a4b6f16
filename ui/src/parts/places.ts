/** The pages of the navigation. */

import Activity from "@lucide/svelte/icons/activity";
import Blocks from "@lucide/svelte/icons/blocks";
import Database from "@lucide/svelte/icons/database";
import Inbox from "@lucide/svelte/icons/inbox";
import Mails from "@lucide/svelte/icons/mails";
import Play from "@lucide/svelte/icons/play";
import Plug from "@lucide/svelte/icons/plug";
import Workflow from "@lucide/svelte/icons/workflow";
import Zap from "@lucide/svelte/icons/zap";

export interface Place {
  path: string;
  name: string;
  /** The letter that goes there after `g`. */
  letter: string;
  Icon: typeof Play;
}

export const PLACES: readonly Place[] = [
  { path: "/", name: "Automations", letter: "a", Icon: Workflow },
  { path: "/executions", name: "Executions", letter: "e", Icon: Play },
  { path: "/inbox", name: "Inbox", letter: "i", Icon: Inbox },
  { path: "/events", name: "Events", letter: "v", Icon: Zap },
  { path: "/messages", name: "Messages", letter: "m", Icon: Mails },
  { path: "/connections", name: "Connections", letter: "c", Icon: Plug },
  { path: "/connectors", name: "Connectors", letter: "k", Icon: Blocks },
  { path: "/state", name: "State", letter: "t", Icon: Database },
  { path: "/status", name: "Status", letter: "s", Icon: Activity },
];
