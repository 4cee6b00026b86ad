import {
  type ConfigVersion,
  countShadows,
  type FoundLoad,
  lastLoad,
  listLoads,
  listReplicas,
  readVersion,
} from '../../audit/config-loads.ts';
import { OperationError } from '../../contract/operation-error.ts';
import { RULE_TITLES } from '../../explain/rules.ts';
import { replicaName } from '../../kit/process/replica-name.ts';
import type { AdminOptions, Asked } from '../asked.ts';
import { pageOf } from '../input.ts';
import { diffFiles, diffRules } from './diff.ts';
import { shadowRules } from './shadow-rules.ts';

const DAYS_COUNTED = 7;
const DAY_MS = 86_400_000;

/** What gateways loaded and run: files, rules in words, findings, and what differs. For administrators; nothing here changes anything. */
export function configOperations({ database, clock, upstreams }: AdminOptions) {
  async function versionOf(version: string): Promise<ConfigVersion & { readonly load: FoundLoad }> {
    const found = /^[0-9a-f]{12}$/.test(version) ? await readVersion(database, version) : undefined;
    if (found !== undefined) return found;
    throw new OperationError(
      'there is no such version: the loads name those that are kept, the last 50 of 90 days',
      'missing',
    );
  }

  /** What the replica that answers runs; where none does, what was put in force last. */
  async function state() {
    const replica = upstreams === undefined ? null : replicaName();
    const replicas = await listReplicas(database, new Date(clock.now()));
    const last = await lastLoad(database, { failed: false });
    const version = replicas.find(({ name }) => name === replica)?.version ?? last?.version ?? null;
    return { replica, replicas, version };
  }

  return {
    async getConfig(_: Asked, _nothing: object) {
      const { replica, replicas, version } = await state();
      const is_failing = replicas.some(({ failing_since }) => failing_since !== null);
      const failing = is_failing ? ((await lastLoad(database, { failed: true })) ?? null) : null;
      return { replica, replicas, version, failing };
    },

    async listConfigLoads(_: Asked, { before, limit }: { readonly before?: number; readonly limit: number }) {
      const page = pageOf(await listLoads(database, { before, limit: limit + 1 }), limit);
      return { loads: page.entries, next: page.next };
    },

    async getConfigVersion(_: Asked, { version }: { readonly version: string }) {
      const { load, files, rules, ...found } = await versionOf(version);
      const rule_kinds = Object.entries(RULE_TITLES).map(([kind, title]) => ({ kind, title }));
      return { ...found, load, files, rules, rule_kinds };
    },

    async diffConfigVersions(_: Asked, { from, to }: { readonly from: string; readonly to: string }) {
      const [before, after] = await Promise.all([versionOf(from), versionOf(to)]);
      return {
        from: before.version,
        to: after.version,
        files: diffFiles(before.files, after.files),
        rules: before.rules === null || after.rules === null ? null : diffRules(before.rules, after.rules),
      };
    },

    async listShadowRules(_: Asked, _nothing: object) {
      const { version } = await state();
      const since = new Date(clock.now() - DAYS_COUNTED * DAY_MS);
      if (version === null) return { version, since, rules: [] };
      const [found, counts] = await Promise.all([versionOf(version), countShadows(database, since)]);
      return { version, since, rules: shadowRules(found, counts) };
    },
  };
}
