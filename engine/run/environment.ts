import type { Clock } from '../contract/services.ts';
import type { Telemetry } from '../contract/telemetry.ts';
import type { JsonBounds } from '../kit/json/scan.ts';
import type { Connections } from './answer/connections.ts';
import type { BodyBudget } from './body-budget.ts';
import type { Occupancy } from './occupancy.ts';
import type { BodyLimits } from './receive-body.ts';

/** What one request needs from the server it arrived at. */
export interface RequestEnvironment {
  readonly budget: BodyBudget;
  /** Requests under way in this process, by whom and by what limits count. */
  readonly under_way: Occupancy;
  /** Most requests of one caller under way at once. */
  readonly requests_per_principal: number;
  readonly connections: Connections;
  /** Most connections of one caller that stay open between requests. */
  readonly connections_per_principal: number;
  readonly body_limits: BodyLimits;
  readonly json_bounds: JsonBounds;
  readonly clock: Clock;
  readonly telemetry: Telemetry;
}
