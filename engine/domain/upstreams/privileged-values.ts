import type { GatewayConfig, ModelConfig, UpstreamConfig } from '../../base/contract/config.ts';
import { type ErrorDetails, StageError } from '../../base/contract/errors.ts';
import type { EffectivePrice, ModelCaller, ModelCatalog, Served } from '../../base/contract/services.ts';
import {
  fieldRule,
  PRIVILEGED_NAMES,
  type PrivilegedChoice,
  type PrivilegedValue,
  parameterRule,
  ruleNamed,
} from '../protocols/index.ts';
import { modelNotFound } from './models.ts';

/** A routed request, with the values that the check of privileged fields needs. */
interface DecidedRequest {
  readonly caller: ModelCaller;
  readonly model: ModelConfig;
  readonly called: string;
  readonly upstream: UpstreamConfig;
  /** Milliseconds since the epoch; selects the prices in force. */
  readonly at: number;
  /** Whether the upstream also serves another model for this caller. */
  readonly servesThere: (model: ModelConfig) => boolean;
}

const PRICED: Readonly<Record<string, { readonly key: keyof Served; readonly pricing: string }>> = {
  service_tier: { key: 'service_tier', pricing: 'service_tiers' },
  speed: { key: 'speed', pricing: 'speeds' },
  inference_geo: { key: 'inference_geo', pricing: 'inference_geos' },
};

/** Keys of the audio prices in the pricing of a model, by the field and value that request audio. */
const AUDIO_PRICES: Readonly<Record<string, 'audio_input' | 'audio_output'>> = {
  'input_audio audio': 'audio_input',
  'modalities audio': 'audio_output',
};

/** Values that an error message may quote: single words, never prompt text. */
const PLAIN_WORD = /^[\w.-]{1,40}$/;

/** Places where APIs and routers look for models; elsewhere a request may repeat its own model's name. */
const KNOWN_PLACE = new RegExp(`^(?:tools|mcp_servers|messages|input|${PRIVILEGED_NAMES.join('|')})\\b`, 'i');

interface Allowed {
  readonly fields: ReadonlySet<string>;
  /** The models of the catalogue by their name at the upstream. */
  readonly names: ReadonlyMap<string, readonly ModelConfig[]>;
}

/** Matches typical model names, and not plain words that may be an alias, such as `auto`. */
const TELLING_NAME = /[\d/:@.-]/;

/** Makes the test whether a text is the name of a model at the gateway or any upstream. */
export function modelNames(models: Pick<ModelCatalog, 'all'>): (text: string) => boolean {
  let of: readonly ModelConfig[] | undefined;
  let names: ReadonlySet<string> = new Set();
  let longest = 0;
  return (text) => {
    if (of !== models.all) {
      of = models.all;
      const all = of.flatMap(({ id, aliases, group_aliases, upstream_ids }) => [
        ...[id, ...aliases, ...Object.values(upstream_ids)],
        ...group_aliases.map(({ name }) => name),
      ]);
      names = new Set(all.filter((name) => TELLING_NAME.test(name)));
      longest = Math.max(0, ...[...names].map((name) => name.length));
    }
    return text.length <= longest && names.has(text);
  };
}

/** Known names of tiers, speeds and regions. Anything else could be a piece of a prompt, and becomes no fact. */
export function servedNames({ models, prices }: GatewayConfig): ReadonlySet<string> {
  const pricings = [...models, ...(prices?.rows ?? [])].map(({ pricing }) => pricing);
  const priced = [...pricings, prices?.unknown_model].flatMap((pricing) =>
    [pricing?.service_tiers, pricing?.speeds, pricing?.inference_geos].flatMap((by_name) => Object.keys(by_name ?? {})),
  );
  const harmless = Object.keys(PRICED).flatMap((name) => fieldRule(name, true)?.harmless ?? []);
  return new Set([...priced, ...harmless]);
}

/**
 * Prepares the check of privileged fields for the upstreams of a configuration. It returns the identifiers of all models that a
 * request names beside `model`. Raises model_not_found and invalid_request.
 */
export function createPrivilegedCheck({ upstreams, models: all }: GatewayConfig, models: ModelCatalog) {
  const allowed = new Map(
    upstreams.map(({ name, allow_fields = [] }): [string, Allowed] => [
      name,
      { fields: new Set(allow_fields), names: Map.groupBy(all, ({ id, upstream_ids }) => upstream_ids[name] ?? id) },
    ]),
  );
  return (choices: Readonly<Record<string, PrivilegedChoice>>, request: DecidedRequest): string[] => {
    const { fields, names } = allowed.get(request.upstream.name)!;
    const others = new Set<string>();
    const priced: PrivilegedValue[] = [];
    for (const param in choices) {
      const { field, value: requested } = choices[param]!;
      const value: PrivilegedValue = {
        param,
        rule: ruleNamed(field),
        ...(requested !== undefined && { value: requested }),
      };
      const is_allowed = fields.has(settingFor(param));
      if (value.rule.rule === 'check') {
        for (const { id } of modelsNamed(value, is_allowed, names, request, models)) others.add(id);
      } else if (is_allowed || fields.has(value.rule.name)) continue;
      else if (value.rule.rule === 'price') priced.push(value);
      else throw refusedField(value, request.upstream);
    }
    for (const value of priced) checkPriced(value, new Set([request.model.id, ...others]), request, models);
    return [...others];
  };
}

/** Raises invalid_request for a privileged query parameter: some upstreams read the query as well as the body. */
export function refusePrivilegedQuery(url: string, { name, allow_fields = [] }: UpstreamConfig): void {
  for (const key of parameterNames(url)) {
    const rule = parameterRule(key);
    if (rule === undefined || rule.rule === 'pass' || allow_fields.includes(rule.name)) continue;
    const why = `this query parameter determines ${rule.meaning}; callers may not set it in a query at the upstream "${name}"`;
    throw refusal(rule.name, `${why}. Leave it out of the query`, { upstream: name });
  }
}

/** Bound on repeated decoding of a query: servers behind proxies may decode it again. */
const DECODINGS_MAX = 3;

function* parameterNames(url: string): Generator<string> {
  const start = url.indexOf('?');
  if (start < 0) return;
  let query = url.slice(start + 1);
  for (let decodings = 0; decodings <= DECODINGS_MAX; decodings++) {
    for (const parameter of query.split(/[&;?#]/)) {
      const [name] = new URLSearchParams(`${parameter.split('=', 1)[0]}=`).keys();
      if (name !== undefined && name !== '') yield name;
    }
    const decoded = query.replace(/(?:%[\da-f]{2})+|%u[\da-f]{4}/gi, decodeEscapes);
    if (decoded === query) return;
    query = decoded;
  }
}

/** Decodes URL escapes, and script escapes that some servers accept as well (%u006d). */
function decodeEscapes(escapes: string): string {
  if (/^%u/i.test(escapes)) return String.fromCharCode(Number.parseInt(escapes.slice(2), 16));
  return Buffer.from(escapes.replaceAll('%', ''), 'hex').toString('utf8');
}

/** The spelling of a place in `allow_fields`: one for all items of a list, and for all lines of a file. */
function settingFor(param: string): string {
  return param.replace(/^file line \d+: /, 'lines[].').replaceAll(/\[\d+\]/g, '[]');
}

/** The models of the catalogue that a name can mean at the upstream; none for an unknown name that is allowed. */
function modelsNamed(
  { param, rule, value }: PrivilegedValue,
  is_allowed: boolean,
  names: Allowed['names'],
  { caller, model, called, upstream, servesThere }: DecidedRequest,
  models: ModelCatalog,
): readonly ModelConfig[] {
  if (value === undefined) {
    if (is_allowed) return [];
    const form = 'must name each model as a string or as an object with `model`';
    throw refusal(param, `${form}; it determines ${rule.meaning}`);
  }
  if (value === called && !KNOWN_PLACE.test(param)) return [];
  const known = names.get(value) ?? [models.find(value, caller.groups)].filter((found) => found !== undefined);
  if (known.length === 0 && (is_allowed || rule.name === '*')) return [];
  const usable = known.filter((found) => models.refusal(caller, found) === undefined);
  if (usable.length === 0) {
    const refusal = known[0] && models.refusal(caller, known[0]);
    throw modelNotFound(value, refusal ?? { by: 'unknown', upstream: upstream.name, field: settingFor(param) }, param);
  }
  const served = usable.filter((found) => found.id === model.id || servesThere(found));
  if (rule.name === '*') return served;
  if (served.length === 0) throw modelNotFound(value, { by: 'upstream', upstream: upstream.name }, param);
  const there = served[0]!.upstream_ids[upstream.name] ?? served[0]!.id;
  if (there !== value) {
    const why = `the gateway forwards this name unchanged, and the upstream "${upstream.name}" calls the model "${there}"`;
    throw refusal(param, `${why}. Use "${there}"`, { upstream: upstream.name });
  }
  return served;
}

function checkPriced(
  { param, rule, value }: PrivilegedValue,
  ids: ReadonlySet<string>,
  { upstream, at }: DecidedRequest,
  models: ModelCatalog,
): void {
  const priced = PRICED[rule.name];
  const audio = AUDIO_PRICES[`${rule.name} ${value}`];
  for (const id of ids) {
    const price: EffectivePrice = models.price(models.charged(id)!, { upstream: upstream.name, at });
    if (priced !== undefined && value !== undefined && price.served?.names[priced.key].includes(value)) continue;
    if (audio !== undefined && price.pico[audio] !== undefined) continue;
    const word = value !== undefined && PLAIN_WORD.test(value) ? value : undefined;
    const key = audio ?? (priced && `${priced.pricing}.${word ?? 'NAME'}`);
    const remedy =
      key === undefined
        ? `add "${rule.name}" to \`allow_fields\` of the upstream`
        : `give it one: \`${key}\` in the pricing of the model`;
    const shown = word === undefined ? 'this value' : `"${word}"`;
    const why = `${shown} has no price for the model "${id}" at the upstream "${upstream.name}"`;
    const details = { upstream: upstream.name, model: id };
    throw refusal(param, `${why}. Leave it out, or have an administrator ${remedy}`, details);
  }
}

function refusedField({ param, rule }: PrivilegedValue, { name }: UpstreamConfig): StageError {
  const why = `this field determines ${rule.meaning}; callers may not set it at the upstream "${name}"`;
  const remedy = `Leave it out, or have an administrator add "${rule.name}" to \`allow_fields\` of the upstream`;
  return refusal(param, `${why}. ${remedy}`, { upstream: name });
}

function refusal(param: string, message: string, details: ErrorDetails = {}): StageError {
  return new StageError('invalid_request', `${param}: ${message}.`, { details: { param, ...details } });
}
