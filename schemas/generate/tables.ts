import { ATTEMPT_REASONS, DROP_REASONS } from '../../engine/base/contract/forwarding.ts';
import { PROTOCOLS, type Protocol } from '../../engine/base/contract/protocol.ts';
import { PRIVILEGED_FIELDS, type PrivilegedField } from '../../engine/domain/protocols/body/privileged-fields.ts';
import { DEFINITIONS } from '../../engine/domain/protocols/definitions.ts';
import type { TranslationRule } from '../../engine/domain/protocols/translation/rule.ts';
import { protocolsOf, type RuleName, TRANSLATION_RULES } from '../../engine/domain/protocols/translation/rules.ts';
import { METRICS, type MetricSpec } from '../../engine/domain/telemetry/catalogue/metrics.ts';
import { prometheusName } from '../../engine/domain/telemetry/catalogue/prometheus-names.ts';
import { ATTRIBUTES, EVENTS, SPANS } from '../../engine/domain/telemetry/catalogue/spans.ts';
import { FAILOVER_NOTES, FAILOVER_TABLE, type FailoverRow } from '../../engine/domain/upstreams/failover-table.ts';
import {
  CONNECTION_HEADERS,
  ORIGIN_HEADERS,
  PRIVILEGED_HEADERS,
  TRACE_HEADERS,
} from '../../engine/domain/upstreams/headers.ts';
import { code, codes, KINDS, page, prose, protocolNames, sentence, table, tableOf } from './markdown.ts';

/** The spans, events and metrics with an attribute. */
function usersOf(name: string): readonly string[] {
  const uses = (known: Readonly<Record<string, { readonly attributes: readonly string[] }>>, kind: string) =>
    Object.entries(known).flatMap(([key, { attributes }]) => (attributes.includes(name) ? [`${kind} ${key}`] : []));
  const metrics = Object.entries(METRICS as Readonly<Record<string, MetricSpec>>).flatMap(([key, { labels }]) =>
    labels.includes(name) ? [`metric ${key}`] : [],
  );
  return [...uses(SPANS, 'span'), ...uses(EVENTS, 'event'), ...metrics];
}

/** The page about telemetry. */
export function telemetryPage(): string {
  return page('Telemetry', [
    'Every span, event, attribute and metric of the gateway. `appscli explain telemetry` prints the same, and `appscli explain telemetry <name>` one of them. None contains texts of prompts, responses or tools, credentials, or e-mail addresses.',
    '## Metrics',
    'OTLP uses these names; `GET /metrics` uses the Prometheus names, with `_bucket`, `_sum` and `_count` for histograms. Each label has few values: there are none for users, tokens or sessions.',
    tableOf(
      Object.entries<MetricSpec>(METRICS),
      {
        Metric: ([name]) => code(name),
        Kind: ([, { kind }]) => kind,
        Unit: ([, { unit }]) => code(unit),
        'In Prometheus': ([name, spec]) => code(prometheusName(name, spec)),
        Labels: ([, { labels }]) => codes(labels),
        Meaning: ([, { meaning }]) => `${meaning}.`,
      },
      { pad_to: 40 },
    ),
    '## Spans',
    'Names in braces stand for the value of the attribute.',
    ...Object.entries(SPANS).flatMap(([key, { name, kind, meaning, attributes, events }]) => [
      `### ${key}`,
      `${code(name)}, kind ${kind}. ${prose(meaning)}.`,
      [
        ...(attributes.length === 0 ? [] : [`- Attributes: ${codes(attributes)}`]),
        ...(events.length === 0 ? [] : [`- Events: ${codes(events)}`]),
      ].join('\n'),
    ]),
    '## Events',
    table(
      ['Event', 'Meaning', 'Attributes'],
      Object.entries(EVENTS).map(([name, { meaning, attributes }]) => [code(name), `${meaning}.`, codes(attributes)]),
      { pad_to: 40 },
    ),
    '## Attributes',
    table(
      ['Attribute', 'Type', 'Meaning', 'Of'],
      Object.entries(ATTRIBUTES).map(([name, spec]) => [
        code(name),
        spec.values?.join(', ') ?? KINDS[spec.kind],
        `${spec.meaning}${spec.conventions === undefined ? '' : ` (conventions ${spec.conventions})`}.`,
        usersOf(name).join(', '),
      ]),
      { pad_to: 40 },
    ),
  ]);
}

type NamedRule = readonly [name: RuleName, rule: TranslationRule];

/** The protocols that a rule leads to, without the only one that it comes from. */
function targetsOf([name]: NamedRule): string {
  const [from, to] = [protocolsOf(name, 'from'), protocolsOf(name, 'to')];
  return to.length === PROTOCOLS.length
    ? 'any other'
    : protocolNames(
        to.filter((protocol) => from.join() !== protocol),
        'any other',
      );
}

/** One table for each side with features that cannot be translated. */
function rulesOf(part: TranslationRule['part']): string[] {
  const [from, to] = part === 'request' ? ['Clients', 'Upstream'] : ['Upstreams', 'Client'];
  const all = Object.entries(TRANSLATION_RULES) as NamedRule[];
  const rules = all.filter(([, rule]) => rule.part === part);
  const titleOf = (protocols: readonly Protocol[]) =>
    `${from} of ${protocolNames(protocols, 'every protocol', ' and ')}`;
  const groups = [...Map.groupBy(rules, ([name]) => titleOf(protocolsOf(name, 'from')))].sort(
    ([, [a]], [, [b]]) => protocolsOf(b![0], 'from').length - protocolsOf(a![0], 'from').length,
  );
  return groups.flatMap(([title, of_group]) => [
    `### ${title}`,
    table(
      ['What', to, 'Handling', 'What happens', 'Name'],
      of_group.map(([name, rule]) => [
        rule.field,
        targetsOf([name, rule]),
        rule.handling,
        sentence(rule.meaning),
        code(name),
      ]),
    ),
  ]);
}

/** The page about losses and changes between protocols. */
export function translationPage(): string {
  return page('Translation', [
    'If client and upstream speak different protocols, the stage `translate` translates everything that both can express. This page lists all losses and changes; none is silent. The fact `translation.losses`, and `losses` in the audit record, have the names of the rules that applied to a request. A rejected request gets `not_translatable` and the name of the rule. With the same protocol on both sides the bytes pass unchanged, and no rule applies.',
    '## Requests',
    ...rulesOf('request'),
    '## Responses',
    ...rulesOf('response'),
  ]);
}

const FAILOVER_COLUMNS = {
  Outcome: 'how an attempt ended before the client got anything',
  Certainty: 'state of the request at that time: not_sent, possibly_accepted, answered, or it depends (-)',
  Again: 'to the same upstream: at once on a fresh connection, or once after a wait; lone: only if no other is left',
  Next: 'to the next upstream; if: only with routing.attempts.unconfirmed',
  Breaker: 'what it counts as: success, failure, or the reason why requests stay away for a time',
  Billed: 'whether the upstream may bill it; as_reported: the usage in its response',
};

const AGAIN: Readonly<Record<FailoverRow['again'], string>> = {
  no: 'no',
  fresh_connection: 'at once',
  after_wait: 'wait',
  after_wait_lone: 'wait, lone',
};

/** The cells of a row, and when it applies. */
function cells([outcome, row]: readonly [string, FailoverRow]): readonly string[] {
  const { certainty = '-', again, next, effect, billed, when, reason } = row;
  const follows = next === 'if_unconfirmed' ? 'if' : next;
  const counts = effect === 'neutral' ? '-' : effect;
  return [code(outcome), certainty, AGAIN[again], follows, counts, billed, when, code(reason)];
}

const meanings = (words: Readonly<Record<string, string>>) =>
  Object.entries(words).map(([word, meaning]) => [code(word), sentence(meaning)]);

/** The page about failover. */
export function failoverPage(): string {
  return page('Failover', [
    'What happens to a request that an upstream cannot serve, before the client has received any part of a response. `appscli explain failover` prints the same, and `appscli explain failover <word>` explains one of the words.',
    '## By outcome',
    table([...Object.keys(FAILOVER_COLUMNS), 'When', 'Reason'], Object.entries(FAILOVER_TABLE).map(cells)),
    Object.entries(FAILOVER_COLUMNS)
      .map(([title, meaning]) => `- ${title}: ${prose(meaning)}`)
      .join('\n'),
    '## Besides',
    FAILOVER_NOTES.map((note) => `- ${prose(note)}`).join('\n'),
    '## Reasons of attempts',
    'What happened after an attempt, in audit records and the ledger.',
    table(['Reason', 'Meaning'], meanings(ATTEMPT_REASONS)),
    '## Reasons why an upstream gets no request',
    'In the fact `route.dropped` and in audit records.',
    table(['Reason', 'Meaning'], meanings(DROP_REASONS)),
  ]);
}

/** The protocols with a privileged field. */
function protocolsWith(field: string): readonly Protocol[] {
  const named = PROTOCOLS.filter((protocol) => DEFINITIONS[protocol].privileged_fields.includes(field));
  return named.length > 0 ? named : PROTOCOLS;
}

function fieldsOf(rule: PrivilegedField['rule']): string {
  const fields: readonly PrivilegedField[] = PRIVILEGED_FIELDS.filter((field) => field.rule === rule);
  return tableOf(fields, {
    Field: ({ name }) => code(name),
    Where: ({ level }) => (level === 'top' ? 'top level' : 'anywhere'),
    Protocol: ({ name }) => protocolNames(protocolsWith(name), 'all'),
    'What it decides': ({ meaning }) => sentence(meaning),
    'Passes anyway': ({ harmless = [] }) => codes(harmless),
    'Documented in': ({ source }) => source,
  });
}

/** The page about privileged fields and headers: those beside `model` that decide models, prices and accounts. */
export function privilegedPage(): string {
  return page('Privileged fields', [
    'Beside its `model`, these privileged fields and headers decide the models, prices and accounts of a request. Everything else passes unchanged, known or not. "Anywhere" is any depth outside of content: conversations (except the tools they define), instructions, schemas and arguments of tools, metadata. Camel case, kebab case and letters that parsers fold name the same field. The stage `read-body` finds them (fact `request.privileged_fields`), and `resolve-route` checks them for the chosen upstream.',
    '## Fields that name models',
    'Each name must be a model that the caller may use, by its name at the upstream, and its requests must go to the same upstream. Otherwise the request is rejected with `model_not_found` and the position. The fact `request.other_models` lists the models, and the reservation covers the most expensive. The same applies to every field whose name ends in `model`, `models`, `model_id`, `model_override`, `fallbacks` and the like; to every text outside of content that is the name of a model of gateway.yaml (only names with a digit, hyphen, dot, slash, colon or at sign, because other words may be an alias); and to every tool of a router (`type: router:tool`) that may request a model it does not name. `allow_fields` of an upstream, with the position as in `moderation.model`, lets models pass that gateway.yaml does not list.',
    fieldsOf('check'),
    '## Fields that change the price',
    'A value needs a price in the `pricing` of every model that the request may use: `service_tiers`, `speeds`, `inference_geos`, and for audio `audio_input` and `audio_output`. Without one, the request is rejected with `invalid_request`. `allow_fields` of an upstream lets a field pass that the gateway cannot price; limits then do not include its cost.',
    fieldsOf('price'),
    '## Fields that choose who serves or pays',
    'They are rejected with `invalid_request`, unless `allow_fields` of the upstream lists them. The same applies to every field whose name ends like an account (`workspace_id`, `organization`, `project`, `tenant_id`, `billing_account`) or a credential (`api_key`, `virtual_key`), or begins with a cloud (`aws_`, `azure_`, `vertex_`), outside of tools and tool servers. In the query string all privileged fields are rejected, in every spelling that servers read (`model[]`, `options.model`, after a semicolon, encoded twice), unless `allow_fields` lists them.',
    fieldsOf('refuse'),
    '## Fields that cost money within what is reserved',
    'They pass. Reservation and bill include their cost.',
    fieldsOf('pass'),
    '## Headers',
    "Headers whose names end in `-beta` pass as they are; where one lengthens the context window (`context-1m-...`), the reservation counts with the longer one. The following are dropped, unless `allow_headers` of the upstream lists them, and named in the fact `request.dropped_headers` and the audit record: clients often send some of them, and without them the account of the upstream's credential pays. A name that ends in `*` is a prefix; `x-openrouter-title` and `x-openrouter-categories` pass. The same applies to headers whose names end like an account, a model, a deployment, a service tier or a key. `http-referer` and `x-title` only name the application, and pass. The gateway also drops headers that proxies and sign-ins in front of it add (`x-forwarded-*`, `forwarded`, `x-real-ip` and similar ones): they describe the path to the gateway, and a router or server behind it could rely on them. `via` and `cdn-loop` pass, because they detect loops. For tracing headers see [Headers](headers.md).",
    table(
      ['Header', 'Decides over', 'What it chooses', 'Documented in'],
      PRIVILEGED_HEADERS.map(({ name, decides, meaning, source }) => [code(name), decides, sentence(meaning), source]),
    ),
  ]);
}

/** Tracing headers, by the standard that defines them. */
function tracing(kind: 'baggage' | 'trace'): string {
  const headers = TRACE_HEADERS.filter(({ carries }) => carries === kind);
  return tableOf(headers, { Header: ({ names }) => codes(names), 'Defined by': ({ source }) => source });
}

/** The page about response headers and tracing headers of requests. */
export function headersPage(): string {
  return page('Headers', [
    "Every header of an upstream's response passes to the client with its spelling, order and repetitions, on every pipeline, with these exceptions. `appscli explain header <name>` explains one header.",
    '## Of the connection',
    `Hop-by-hop headers (RFC 9110 section 7.6.1), like those that \`connection\` lists: ${codes(CONNECTION_HEADERS)}.`,
    "## Of the gateway's host",
    'They affect the host that a response comes from, here the gateway, or the proxies in front of it. No client of models needs them. A name that ends in `*` is a prefix.',
    tableOf(ORIGIN_HEADERS, { Header: ({ names }) => codes(names), 'What it does': ({ effect }) => `it ${effect}` }),
    '## Written by the gateway',
    "`x-gateway-request-id`; `x-gateway-cache-ttl: 5m` if the gateway changed a one-hour prompt cache to five minutes (`upstreams[].on_unsupported_cache`); headers with the caller's own limits, in place of the upstream's; the `refusal_header` of the profile on rejections by a limit; `content-length` and `content-encoding` of a translated response; `access-control-*` and `vary: origin` for pages of `server.cors.origins`; `x-accel-buffering: no` on every event stream, in place of the upstream's own, so that proxies in front do not buffer it.",
    '## Tracing: headers of requests',
    "`telemetry.propagate` selects the trace headers for upstreams. `verbatim`, the default: the client's headers unchanged. `join`: a `traceparent` of the gateway, whose parent is the span of the attempt, and the client's `tracestate`; `sampled` follows the sampling ratio, and is off if no traces are exported. `strip`: none. The fact `request.dropped_headers` and the audit record name dropped and replaced headers.",
    tracing('trace'),
    'Baggage can contain anything, such as the identity of a user. It never reaches an upstream, regardless of `propagate` and `allow_headers`:',
    tracing('baggage'),
  ]);
}
