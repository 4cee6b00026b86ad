import { TIERS } from '../../../client-files/messages.ts';
import { closest } from '../../../kit/text/suggest.ts';
import type { Desk } from '../../desk.ts';
import type { Diagnosis } from '../../diagnosis.ts';
import {
  credentialsIn,
  type Found,
  fixIn,
  howToChange,
  isCredential,
  isOn,
  isSet,
  placeOf,
  type Settings,
} from './settings.ts';

/** Ends of names that other programs read, or that people expect, by what this client reads instead. */
const WITHOUT_EFFECT: Readonly<Record<string, string>> = {
  API_BASE: 'BASE_URL',
  API_BASE_URL: 'BASE_URL',
  API_URL: 'BASE_URL',
  API_HOST: 'BASE_URL',
  ENDPOINT: 'BASE_URL',
  API_ENDPOINT: 'BASE_URL',
  TOKEN: 'AUTH_TOKEN',
  BEARER_TOKEN: 'AUTH_TOKEN',
  ACCESS_TOKEN: 'AUTH_TOKEN',
  API_TOKEN: 'AUTH_TOKEN',
  KEY: 'AUTH_TOKEN',
  MODEL_NAME: 'MODEL',
  DEFAULT_MODEL_NAME: 'MODEL',
};

/** Ends of names that mean much to this client. */
const MEANT = [
  'BASE_URL',
  'AUTH_TOKEN',
  'API_KEY',
  'MODEL',
  ...TIERS.map((tier) => `DEFAULT_${tier.toUpperCase()}_MODEL`),
];

/** Ends of other names that it reads and that look like one of those. */
const KNOWN = /^(?:DEFAULT_MODEL|SMALL_FAST_MODEL|CUSTOM_MODEL_OPTION|.*_(?:BASE_URL|AUTH_TOKEN|API_KEY))$/;

/** Whether a shell has a variable that is for this client and nobody else. */
export function isToldByShell({ env, names }: Pick<Desk, 'env' | 'names'>): boolean {
  return MEANT.some((end) => (env[`${names.messages.variable_prefix}_${end}`] ?? '') !== '');
}

const NAMED = { id: 'messages.variables', title: 'variables without effect' };

/** Variables that this client does not read, though somebody thought so. */
export function examineVariables(desk: Desk, settings: Settings): Diagnosis[] {
  const prefix = `${desk.names.messages.variable_prefix}_`;
  return settings.sources.flatMap((source) => [
    ...Object.keys(source.env).flatMap((name): Diagnosis[] => {
      const meant = name.startsWith(prefix) ? meantBy(name.slice(prefix.length)) : undefined;
      if (meant === undefined) return [];
      const wanted = prefix + meant;
      // In a shell it may be there for another program.
      if (source.kind === 'shell' && isSet(settings.variable(wanted))) return [];
      const found: Found = { name, value: '', where: placeOf(source, ['env', name]), source };
      return [
        {
          ...NAMED,
          verdict: 'warning',
          where: found.where,
          found: `${name} has no effect on this client: what it reads is called ${wanted}`,
          remedy: isSet(settings.variable(wanted)) ? howToChange(found) : `set ${wanted} instead`,
          ...(isSet(settings.variable(wanted)) && fixIn(source, { drops: [['env', name]] })),
        },
      ];
    }),
    ...misplaced(source, prefix),
  ]);
}

function meantBy(end: string): string | undefined {
  if (MEANT.includes(end) || KNOWN.test(end)) return undefined;
  return (
    WITHOUT_EFFECT[end] ??
    closest(
      end,
      MEANT.filter((name) => name.length > 5),
    )
  );
}

/** Variables that stand in a settings file beside `env` and not in it. */
function misplaced(source: Settings['sources'][number], prefix: string): Diagnosis[] {
  return Object.entries(source.values).flatMap(([name, value]): Diagnosis[] => {
    if (!name.startsWith(prefix) || !MEANT.includes(name.slice(prefix.length)) || typeof value !== 'string') return [];
    const is_free = source.env[name] === undefined;
    const change = is_free ? { values: { env: { [name]: value } }, drops: [[name]] } : { drops: [[name]] };
    const [fix] = fixIn(source, change).fixes ?? [];
    return [
      {
        ...NAMED,
        verdict: 'failed',
        where: placeOf(source, [name]),
        found: `${name} stands beside env, where the client does not look for variables`,
        remedy: 'move it into env',
        ...(fix !== undefined && {
          fixes: [isCredential(name) ? { ...fix, hides: [...(fix.hides ?? []), value] } : fix],
        }),
      },
    ];
  });
}

/** Variables that send the client to a cloud in place of the gateway. */
export function examineProviders(desk: Desk, settings: Settings, address: Found | undefined): Diagnosis[] {
  const { feature_prefix: feature, variable_prefix: prefix } = desk.names.messages;
  if (!isSet(address)) return [];
  return ['BEDROCK', 'VERTEX', 'FOUNDRY', 'MANTLE', `${prefix}_AWS`, `${prefix}_GOOGLE_CLOUD`]
    .map((cloud) => settings.variable(`${feature}_USE_${cloud}`))
    .filter((found): found is Found => isOn(found))
    .map((found) => ({
      id: 'messages.provider',
      title: 'where the client goes',
      verdict: 'failed',
      where: found.where,
      found: `${found.name} is set: the client goes to that cloud, and ${address.name} has no effect`,
      remedy: howToChange(found),
    }));
}

/** Credentials in files that others read. */
export function examineSecrets(settings: Settings): Diagnosis[] {
  return settings.sources.flatMap((source): Diagnosis[] => {
    const [name] = credentialsIn(source);
    if (name === undefined || (source.kind !== 'project' && source.kind !== 'managed')) return [];
    const whose =
      source.kind === 'project'
        ? 'this file is made to be committed with the project, for everybody to read'
        : 'everybody who works at this machine can read this file';
    return [
      {
        id: 'messages.secret',
        title: 'credential in a shared file',
        verdict: source.kind === 'project' ? 'failed' : 'warning',
        where: placeOf(source, ['env', name]),
        found: `${name} holds a credential, and ${whose}`,
        remedy: 'revoke it, take it out, and give each person one: appscli client messages --key-helper',
      },
    ];
  });
}
