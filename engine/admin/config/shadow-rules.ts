import { createTwoFilesPatch } from 'diff';
import type { ConfigVersion, KeptFile, KeptRule, ShadowCount } from '../../audit/config-loads.ts';

/** A rule in shadow mode, how often it held, and what would put it in force. */
export interface ShadowRule extends KeptRule {
  /** As audit records name it; stages of several pipelines that have one id share it, and are counted together. */
  readonly recorded_as: string;
  /** Requests that it held for. */
  readonly requests: number;
  readonly upstreams: readonly { readonly upstream: string | null; readonly requests: number }[];
  readonly last_at: Date | null;
  readonly last_request_id: string | null;
  /** A unified diff of its file; `null` where its mode stands elsewhere, or a secret nearby was blanked out. */
  readonly patch: string | null;
}

const CONTEXT_LINES = 3;
const MODE = /\bmode(["']?\s*:\s*["']?)shadow\b/;

/** Rules in shadow mode, those that hold most first. */
export function shadowRules({ rules, files }: ConfigVersion, counts: readonly ShadowCount[]): ShadowRule[] {
  return together((rules ?? []).filter(({ mode }) => mode === 'shadow'))
    .map((rule): ShadowRule => {
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

/** One entry of gateway.yaml may be several limits; it is put in force as one. */
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

/** A diff that takes a rule out of shadow mode: a line of its own goes, a word in a line is changed. */
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
