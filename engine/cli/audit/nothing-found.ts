import type { GatewayConfig } from '../../contract/config.ts';
import { didYouMean } from '../../kit/text/suggest.ts';
import { formatMinute } from '../times.ts';
import type { Meant } from './audit.ts';

/** What is said where no record fits: what was asked for, and which names the configuration does not have. */
export function nothingFound(given: Meant, config: GatewayConfig): string {
  const { since, until, model = [], rule = [], shadow } = given;
  const marks = Array.isArray(shadow) ? shadow : [];
  if (!isFiltered(given)) return 'The audit log is empty.\n';
  const from = since === undefined ? '' : ` since ${formatMinute(since)}`;
  const to = until === undefined ? '' : ` before ${formatMinute(until)}`;
  const hints = [
    ...model.flatMap((id) => modelHint(id, config)),
    ...[...rule, ...marks].flatMap((name) => ruleHint(name, config)),
  ];
  return `No record${from}${to} fits.${hints.map((hint) => `\n${hint}`).join('')}\n`;
}

function isFiltered({ since, until, user, model, token, status, error, shadow, rule }: Meant): boolean {
  return [since, until, user, model, token, status, error, shadow, rule].some((value) => value !== undefined);
}

function modelHint(id: string, { models }: GatewayConfig): string[] {
  if (models.some((model) => model.id === id)) return [];
  const named = models.find(({ aliases, group_aliases }) =>
    [...aliases, ...group_aliases.map(({ name }) => name)].includes(id),
  );
  if (named !== undefined) return [`${id} is an alias; records have the id of the model: ${named.id}.`];
  const help = didYouMean(
    id,
    models.map((model) => model.id),
    'records have ids of models as gateway.yaml has them.',
  );
  return [`gateway.yaml has no model ${id}: ${help}`];
}

function ruleHint(name: string, config: GatewayConfig): string[] {
  const { access, routing, spend_limits } = config;
  const names = [...access.rules, ...routing.rules, ...(spend_limits?.rules ?? [])].map((rule) => rule.name);
  const known = [...names, ...['access', 'routing', 'spend'].flatMap((kind) => names.map((each) => `${kind}:${each}`))];
  if (known.includes(name)) return [];
  // Which stages there are is not known here.
  const help = didYouMean(name, known, 'if it is no stage either, "appscli explain rules" lists what there is.');
  return [`gateway.yaml has no rule or limit ${name}: ${help}`];
}
