import { createTwoFilesPatch, structuredPatch } from 'diff';
import { OperationError } from '../../base/contract/operation-error.ts';
import { REPLICA } from '../../base/kit/process/gateway-process.ts';
import {
  type ConfigVersion,
  countShadows,
  type FoundLoad,
  type KeptFile,
  type KeptRule,
  lastLoad,
  listLoads,
  listReplicas,
  readVersion,
  type ShadowCount,
} from '../../domain/audit/config-loads.ts';
import { RULE_TITLES } from '../../pipeline/explain/rules.ts';
import type { AdminOptions, OperationContext } from './calls.ts';
import { type PageBefore, pageOf } from './lists.ts';

const CONTEXT_LINES = 3;
/** Two very different texts take long to compare. */
const DIFF_TIMEOUT_MS = 250;
const LINES_MAX = 5000;

/** Files that differ, by name; `hunks` is `null` if only digests are stored, or if the diff is too large. */
export function diffFiles(before: readonly KeptFile[], after: readonly KeptFile[]) {
  const old_files = new Map(before.map((file) => [file.name, file]));
  const new_files = new Map(after.map((file) => [file.name, file]));
  const names = [...new Set([...old_files.keys(), ...new_files.keys()])].toSorted();
  return names.flatMap((name) => {
    const [old_file, new_file] = [old_files.get(name), new_files.get(name)];
    if (old_file?.text === new_file?.text && old_file?.digest === new_file?.digest) return [];
    const change = old_file === undefined ? 'added' : new_file === undefined ? 'removed' : 'changed';
    const is_text = [old_file, new_file].every((file) => file === undefined || file.text !== null);
    return [{ name, change, hunks: is_text ? hunksOf(old_file?.text ?? '', new_file?.text ?? '') : null }] as const;
  });
}

function hunksOf(before: string, after: string) {
  const patch = structuredPatch('', '', before, after, '', '', { context: CONTEXT_LINES, timeout: DIFF_TIMEOUT_MS });
  if (patch === undefined) return null;
  if (patch.hunks.reduce((sum, { lines }) => sum + lines.length, 0) > LINES_MAX) return null;
  return patch.hunks.map(({ oldStart, newStart, lines }) => ({
    old_line: oldStart,
    new_line: newStart,
    lines: lines.filter((line) => !line.startsWith('\\')).map((line) => ({ kind: kindOf(line), text: line.slice(1) })),
  }));
}

function kindOf(line: string): 'same' | 'removed' | 'added' {
  return line.startsWith('+') ? 'added' : line.startsWith('-') ? 'removed' : 'same';
}

/** Rules that differ between two versions, before and after; `null` for an added or removed rule. */
export function diffRules(
  before: readonly KeptRule[],
  after: readonly KeptRule[],
): { readonly before: KeptRule | null; readonly after: KeptRule | null }[] {
  const keyOf = ({ kind, name }: KeptRule) => JSON.stringify([kind, name]);
  const old_rules = Map.groupBy(before, keyOf);
  const new_rules = Map.groupBy(after, keyOf);
  const keys = new Set([...old_rules.keys(), ...new_rules.keys()]);
  return [...keys].flatMap((key) => {
    const [was, is] = [old_rules.get(key) ?? [], new_rules.get(key) ?? []];
    // Several rules may share a name, such as the limits of one entry: equal ones are left out.
    const gone = was.filter((rule) => !is.some((other) => isSameRule(rule, other)));
    const made = is.filter((rule) => !was.some((other) => isSameRule(rule, other)));
    const count = Math.max(gone.length, made.length);
    return Array.from({ length: count }, (_, i) => ({ before: gone[i] ?? null, after: made[i] ?? null }));
  });
}

function isSameRule(a: KeptRule, b: KeptRule): boolean {
  return a.text === b.text && a.effect === b.effect && a.mode === b.mode;
}

const MODE = /\bmode(["']?\s*:\s*["']?)shadow\b/;

/**
 * Shadow rules with their match counts, the most frequent first. `recorded_as`: name in audit records, where stages with the same id
 * in several pipelines are counted together; `patch`: unified diff of its file that enforces it, `null` if the mode is in another
 * place, or a redacted secret is nearby.
 */
export function shadowRules({ rules, files }: ConfigVersion, counts: readonly ShadowCount[]) {
  return together((rules ?? []).filter(({ mode }) => mode === 'shadow'))
    .map((rule) => {
      const recorded_as = recordedAs(rule);
      const count = counts.find(({ name }) => name === recorded_as);
      return {
        ...rule,
        recorded_as,
        requests: count?.requests ?? 0,
        upstreams: Object.entries(count?.by_upstream ?? {})
          .map(([upstream, requests]) => ({ upstream: upstream === '' ? null : upstream, requests }))
          .toSorted((a, b) => b.requests - a.requests),
        last_at: count?.last_at ?? null,
        last_request_id: count?.last_request_id ?? null,
        patch: promotion(
          files.find(({ name }) => name === rule.file),
          rule,
        ),
      };
    })
    .toSorted((a, b) => b.requests - a.requests);
}

function together(rules: readonly KeptRule[]): KeptRule[] {
  const entries = Map.groupBy(rules, ({ kind, name, file, line }) => JSON.stringify([kind, name, file, line]));
  return [...entries.values()].map((own) => {
    return { ...own[0]!, effect: [...new Set(own.map(({ effect }) => effect))].join('; ') };
  });
}

function recordedAs({ kind, name }: KeptRule): string {
  if (kind === 'routing' || kind === 'access' || kind === 'spend') return `${kind}:${name}`;
  return name.slice(name.indexOf('/') + 1);
}

function promotion(file: KeptFile | undefined, { first_line, last_line }: KeptRule): string | null {
  if (file?.text == null || file.name.startsWith('appscli/')) return null;
  const lines = file.text.split('\n');
  const found = lines.slice(first_line - 1, last_line).findIndex((text) => MODE.test(text));
  if (found < 0) return null;
  const at = first_line - 1 + found;
  const nearby = lines.slice(Math.max(0, at - CONTEXT_LINES), at + CONTEXT_LINES + 1);
  if (nearby.some((text) => text.includes('***'))) return null;
  const is_alone = /^\s*mode:\s*["']?shadow["']?\s*(?:#.*)?\r?$/.test(lines[at]!);
  const after = is_alone ? lines.toSpliced(at, 1) : lines.with(at, lines[at]!.replace(MODE, 'mode$1enforce'));
  const options = { context: CONTEXT_LINES };
  return createTwoFilesPatch(`a/${file.name}`, `b/${file.name}`, file.text, after.join('\n'), '', '', options);
}

const DAYS_COUNTED = 7;
const DAY_MS = 86_400_000;

/** Loaded configurations: files, rules in words, findings and diffs. For administrators, read-only. */
export function configOperations({ database, clock, upstreams }: AdminOptions) {
  async function versionOf(version: string): Promise<ConfigVersion & { readonly load: FoundLoad }> {
    const found = /^[0-9a-f]{12}$/.test(version) ? await readVersion(database, version) : undefined;
    if (found !== undefined) return found;
    throw new OperationError(
      'unknown version: only the last 50 versions of 90 days are stored; "appscli config loads" lists them',
      'missing',
    );
  }

  async function state() {
    const replica = upstreams === undefined ? null : REPLICA;
    const replicas = await listReplicas(database, new Date(clock.now()));
    const last = await lastLoad(database, { failed: false });
    const version = replicas.find(({ name }) => name === replica)?.version ?? last?.version ?? null;
    return { replica, replicas, version };
  }

  return {
    async getConfig(_: OperationContext, _nothing: object) {
      const { replica, replicas, version } = await state();
      const is_failing = replicas.some(({ failing_since }) => failing_since !== null);
      const failing = is_failing ? ((await lastLoad(database, { failed: true })) ?? null) : null;
      return { replica, replicas, version, failing };
    },

    async listConfigLoads(_: OperationContext, { before, limit }: PageBefore) {
      const page = pageOf(await listLoads(database, { before, limit: limit + 1 }), limit);
      return { loads: page.entries, next: page.next };
    },

    async getConfigVersion(_: OperationContext, { version }: { readonly version: string }) {
      const { load, files, rules, ...found } = await versionOf(version);
      const rule_kinds = Object.entries(RULE_TITLES).map(([kind, title]) => ({ kind, title }));
      return { ...found, load, files, rules, rule_kinds };
    },

    async diffConfigVersions(_: OperationContext, { from, to }: { readonly from: string; readonly to: string }) {
      const [before, after] = await Promise.all([versionOf(from), versionOf(to)]);
      return {
        from: before.version,
        to: after.version,
        files: diffFiles(before.files, after.files),
        rules: before.rules === null || after.rules === null ? null : diffRules(before.rules, after.rules),
      };
    },

    async listShadowRules(_: OperationContext, _nothing: object) {
      const { version } = await state();
      const since = new Date(clock.now() - DAYS_COUNTED * DAY_MS);
      if (version === null) return { version, since, rules: [] };
      const [found, counts] = await Promise.all([versionOf(version), countShadows(database, since)]);
      return { version, since, rules: shadowRules(found, counts) };
    },
  };
}
