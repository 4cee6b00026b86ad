/** A real gateway whose stages are watched: which of them ran for a request, and the facts they left. */
import { rm } from 'node:fs/promises';
import type { FactView, Services, StageContext, StageDefinition } from '../../engine/api.ts';
import { ConfigurationError } from '../../engine/cli/configuration-error.ts';
import { startGateway } from '../../engine/cli/start-gateway.ts';
import type { Database } from '../../engine/services/database.ts';
import { stages } from '../../stages/index.ts';
import { type ConfigSections, makeToken, type TokenWish, UPSTREAM_KEY, writeConfig } from './gateway.ts';
import { describeFinding } from './pipeline-test-file.ts';
import { quietLog } from './store.ts';

/** What happened inside the gateway on one request. */
export interface RequestRecord {
  readonly request_id: string;
  /** Names of the stages whose request or finally hook ran. */
  readonly ran: Set<string>;
  /** All facts, once `finished`. */
  facts: FactView;
  /** Whether every finish hook has run. */
  finished: boolean;
}

/** A gateway for pipeline tests. Requests must be sent one after another. */
export interface WatchedGateway {
  readonly url: string;
  readonly database: Database;
  /** In order of arrival. */
  readonly records: readonly RequestRecord[];
  newToken(wish: TokenWish): Promise<string>;
  close(): Promise<void>;
}

class Watch {
  readonly records: RequestRecord[] = [];
  readonly #first = new Map<string, string>();

  recordOf(services: Services, ctx: StageContext): RequestRecord {
    const request_id = (services.facts(ctx).request as { id: string }).id;
    const known = this.records.find((record) => record.request_id === request_id);
    if (known !== undefined) return known;
    const record: RequestRecord = { request_id, ran: new Set(), facts: {}, finished: false };
    this.records.push(record);
    return record;
  }

  onRun(record: RequestRecord, stage: string): void {
    if (!this.#first.has(record.request_id)) this.#first.set(record.request_id, stage);
    record.ran.add(stage);
  }

  onFinish(record: RequestRecord, stage: string, facts: FactView): void {
    record.facts = facts;
    // Finish hooks run newest first, so that of the first stage is the last.
    if (this.#first.get(record.request_id) === stage) record.finished = true;
  }
}

function watched(definition: StageDefinition, watch: Watch): StageDefinition {
  return {
    ...definition,
    create(options, services) {
      const hooks = definition.create(options, services);
      const noteRun = (ctx: StageContext) => watch.onRun(watch.recordOf(services, ctx), definition.name);
      if (hooks.finally !== undefined) {
        return {
          ...hooks,
          finally(ctx) {
            noteRun(ctx);
            return hooks.finally!(ctx);
          },
        };
      }
      return {
        ...hooks,
        ...(hooks.request && {
          request(ctx: StageContext) {
            noteRun(ctx);
            return hooks.request!(ctx);
          },
        }),
        async finish(ctx) {
          await hooks.finish?.(ctx);
          watch.onFinish(watch.recordOf(services, ctx), definition.name, services.facts(ctx));
        },
      };
    },
  };
}

function withFindings(error: unknown): unknown {
  if (!(error instanceof ConfigurationError)) return error;
  return new Error([error.message, ...error.findings.diagnostics.map(describeFinding)].join('\n'), { cause: error });
}

/** Starts a gateway with this gateway.yaml on an existing database. */
export async function startWatchedGateway(config: ConfigSections, database_url: string): Promise<WatchedGateway> {
  const { directory, config_file } = await writeConfig(config);
  const watch = new Watch();
  const gateway = await startGateway({
    config_file,
    stages: stages.map((definition) => watched(definition, watch)),
    env: { ...process.env, TEST_UPSTREAM_KEY: UPSTREAM_KEY, TEST_DATABASE_URL: database_url },
    log: quietLog,
  }).catch((error: unknown) => {
    throw withFindings(error);
  });
  return {
    url: gateway.url,
    database: gateway.database,
    records: watch.records,
    newToken: (wish) => makeToken(gateway.database, wish),
    async close() {
      await gateway.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
