/** Replays and operations on many executions. */

import { api, data } from "./client";
import type { components } from "./schema";

type Schemas = components["schemas"];

export type RepeatedCall = Schemas["RepeatedCallView"];
export type ReplayPlan = Schemas["Replay"];
export type ReplayOptions = Omit<Schemas["ReplayBody"], "dryRun">;
export type Operation = Schemas["BulkView"];
export type Selection = Pick<Schemas["BulkBody"], "ids" | "filter">;

/** Returns what a replay would do, or starts it. */
export const replay = (id: string, options: ReplayOptions, dryRun: boolean, signal?: AbortSignal): Promise<ReplayPlan> =>
  data(
    api.POST("/api/v1/executions/{id}/replay", {
      params: { path: { id } },
      body: { ...options, dryRun },
      ...(signal && { signal }),
    }),
  );

/** Returns the count of an operation on many executions, or starts it. */
export const bulk = (action: "replay" | "cancel", selection: Selection, dryRun: boolean): Promise<Operation> =>
  data(api.POST("/api/v1/executions/bulk", { body: { action, ...selection, dryRun } }));

export const progress = (id: string, signal: AbortSignal): Promise<Operation> =>
  data(api.GET("/api/v1/executions/bulk/{id}", { params: { path: { id } }, signal }));

export const stop = (id: string): Promise<Operation> =>
  data(api.DELETE("/api/v1/executions/bulk/{id}", { params: { path: { id } } }));
