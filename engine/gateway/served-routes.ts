import type { Router } from 'express';
import type { AdminOptions } from '../admin/asked.ts';
import type { LiveRecords } from '../audit/live-records.ts';
import { adminRoutes } from '../http/admin/index.ts';
import { clientPackageRoute } from '../http/client-package.ts';
import { clientTelemetryRoutes } from '../http/client-telemetry.ts';
import { consoleFiles } from '../http/console/console-files.ts';
import {
  consoleSessionRoutes,
  createConsoleCallers,
  frontRoute,
  protocolRoute,
  signInOff,
  signInRoutes,
} from '../http/sign-in/index.ts';
import type { Identity } from '../identity/index.ts';
import { programVersion } from '../kit/package-root.ts';
import type { Plan } from '../run/plan.ts';
import type { Loaded } from '../source/spec.ts';
import type { Database } from '../store/database.ts';
import type { GatewayTelemetry } from '../telemetry/open-telemetry.ts';
import type { OpenUpstreamStates } from '../upstreams/states/open-upstream-states.ts';
import type { Foundation } from './plan-services.ts';

/** What the routes of a configuration work with. */
interface Served extends Pick<Loaded, 'pipelines' | 'policies'> {
  readonly plan: Plan;
  readonly identity: Identity | undefined;
  readonly database: Database;
  readonly foundation: Pick<Foundation, 'catchUp'>;
  readonly upstreams: OpenUpstreamStates;
  readonly live: LiveRecords;
  readonly explained: AdminOptions['explained'] & object;
  readonly telemetry: GatewayTelemetry;
}

/** What serves the paths that belong to no pipeline, in the order in which they are tried. */
export function routesOf(served: Served): Router[] {
  const { plan, pipelines, policies, identity, database, foundation, telemetry } = served;
  const { upstreams, live, explained } = served;
  const { config, services } = plan;
  const { clock, log, models, tokens } = services;
  const verify = (token: string) => tokens.verify(token);
  const { catchUp } = foundation;
  const { sessions } = identity ?? {};
  const common = { config, database, clock, log, telemetry };
  const console_callers = createConsoleCallers({ ...common, identity });
  return [
    frontRoute({ config, clock, log }),
    protocolRoute({ config, pipelines, version: programVersion(), clock, log }),
    identity === undefined
      ? signInOff({ branding: config.branding, clock, log })
      : signInRoutes({ ...common, identity }),
    consoleSessionRoutes({ ...common, identity }, console_callers),
    clientTelemetryRoutes({ config, relay: telemetry.relay, verify, clock, log }),
    clientPackageRoute(config),
    consoleFiles(config.server.public_url),
    adminRoutes({
      ...{
        ...common,
        policies,
        sessions,
        catchUp,
        verify,
        console: console_callers,
        models,
        upstreams,
        live,
        explained,
      },
    }),
  ];
}
