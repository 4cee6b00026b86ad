import { ATTEMPT_REASONS, DROP_REASONS } from '../../engine/base/contract/forwarding.ts';
import { PROTOCOLS, type Protocol } from '../../engine/base/contract/protocol.ts';
import { DECISIVE_FIELDS, type DecisiveField } from '../../engine/domain/protocols/body/decisive-fields.ts';
import type { TranslationRule } from '../../engine/domain/protocols/translation/rule.ts';
import { TRANSLATION_RULES } from '../../engine/domain/protocols/translation/rules.ts';
import { METRICS, type MetricSpec } from '../../engine/domain/telemetry/catalogue/metrics.ts';
import { prometheusName } from '../../engine/domain/telemetry/catalogue/prometheus-names.ts';
import { QUESTIONS } from '../../engine/domain/telemetry/catalogue/questions.ts';
import {
  type AttributeSpec,
  EVENTS,
  LABEL_ATTRIBUTES,
  ATTRIBUTES as SPAN_ATTRIBUTES,
  SPANS,
} from '../../engine/domain/telemetry/catalogue/spans.ts';
import { FAILOVER_NOTES, FAILOVER_TABLE, type FailoverRow } from '../../engine/domain/upstreams/failover-table.ts';
import {
  CONNECTION_HEADERS,
  DECISIVE_HEADERS,
  ORIGIN_HEADERS,
  TRACE_HEADERS,
} from '../../engine/domain/upstreams/headers.ts';
import { code, codes, KINDS, page, prose, protocolNames, sentence, table, tableOf } from './markdown.ts';

/** Every attribute of spans, events and metrics. */
const ATTRIBUTES: Readonly<Record<string, AttributeSpec>> = { ...SPAN_ATTRIBUTES, ...LABEL_ATTRIBUTES };

/** What has an attribute: spans, events and metrics. */
function usersOf(name: string): readonly string[] {
  const uses = (known: Readonly<Record<string, { readonly attributes: readonly string[] }>>, kind: string) =>
    Object.entries(known).flatMap(([key, { attributes }]) => (attributes.includes(name) ? [`${kind} ${key}`] : []));
  const metrics = Object.entries(METRICS as Readonly<Record<string, MetricSpec>>).flatMap(([key, { labels }]) =>
    labels.includes(name) ? [`metric ${key}`] : [],
  );
  return [...uses(SPANS, 'span'), ...uses(EVENTS, 'event'), ...metrics];
}

/** The page about what the gateway tells by OpenTelemetry. */
export function telemetryPage(): string {
  return page('Telemetry', [
    'Every span, event, attribute and metric of the gateway. `appscli explain telemetry` prints the same, and `appscli explain telemetry <name>` one of them. None has the text of a prompt, an answer or a tool, a credential, or an e-mail address.',
    '## What it tells',
    'Each question is answered by the spans of a request and, for all of them together, by metrics.',
    tableOf(
      Object.values(QUESTIONS),
      {
        Question: ({ asked }) => asked,
        'On spans': ({ attributes }) => codes(attributes),
        Events: ({ events }) => codes(events),
        Metrics: ({ metrics }) => codes(metrics),
      },
      { pad_to: 40 },
    ),
    '## Metrics',
    'Over OTLP by their own names, at `GET /metrics` by those of Prometheus; a histogram has there `_bucket`, `_sum` and `_count`. Each label has few values: there is none for users, tokens or sessions.',
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

const others = ({ from, to }: TranslationRule) => to.filter((protocol) => from.join() !== protocol);

/** One table per side that has what cannot be said, so that whoever looks for one protocol finds everything about it together. */
function rulesOf(part: TranslationRule['part']): string[] {
  const [from, to] = part === 'request' ? ['Clients', 'Upstream'] : ['Upstreams', 'Client'];
  const all = Object.entries(TRANSLATION_RULES) as [string, TranslationRule][];
  const rules = all.filter(([, rule]) => rule.part === part);
  const titleOf = (protocols: readonly Protocol[]) =>
    `${from} of ${protocolNames(protocols, 'every protocol', ' and ')}`;
  const groups = [...Map.groupBy(rules, ([, rule]) => titleOf(rule.from))].sort(
    ([, [a]], [, [b]]) => b![1].from.length - a![1].from.length,
  );
  return groups.flatMap(([title, of_group]) => [
    `### ${title}`,
    table(
      ['What', to, 'Handling', 'What happens', 'Name'],
      of_group.map(([name, rule]) => [
        rule.field,
        rule.to.length === PROTOCOLS.length ? 'any other' : protocolNames(others(rule), 'any other'),
        rule.handling,
        sentence(rule.meaning),
        code(name),
      ]),
    ),
  ]);
}

/** The page about what is lost or changed between protocols. */
export function translationPage(): string {
  return page('Translation', [
    'Where a client and the upstream of its model speak different protocols, the stage `translate` translates everything that both can express. This page lists the rest: nothing else is lost, and nothing silently. The names of the rules that applied to a request are in the fact `translation.losses` and under `losses` in its audit record; a request that is refused is answered with `not_translatable` and the name of the rule. Where both speak the same protocol the bytes pass unchanged, and no rule applies.',
    '## Requests',
    ...rulesOf('request'),
    '## Answers',
    ...rulesOf('response'),
  ]);
}

/** What the columns of the table say, in its order. */
const FAILOVER_COLUMNS = {
  Outcome: 'how an attempt ended before the client got anything',
  Certainty: 'what is known of the request then: not_sent, possibly_accepted, answered, or it depends (-)',
  Again: 'to the same upstream: at once on a fresh connection, or once after a wait; lone: only if no other is left',
  Next: 'to the next upstream; if: only with routing.attempts.unconfirmed',
  Breaker: 'what it counts as: success, failure, or the reason why requests stay away for a time',
  Billed: 'whether the upstream may bill it; as_reported: what its answer says',
};

const AGAIN: Readonly<Record<FailoverRow['again'], string>> = {
  no: 'no',
  fresh_connection: 'at once',
  after_wait: 'wait',
  after_wait_lone: 'wait, lone',
};

/** The cells of a row, for the columns of the table, and when it applies. */
function cells([outcome, row]: readonly [string, FailoverRow]): readonly string[] {
  const { certainty = '-', again, next, effect, billed, when, reason } = row;
  const follows = next === 'if_unconfirmed' ? 'if' : next;
  const counts = effect === 'neutral' ? '-' : effect;
  return [code(outcome), certainty, AGAIN[again], follows, counts, billed, when, code(reason)];
}

const meanings = (words: Readonly<Record<string, string>>) =>
  Object.entries(words).map(([word, meaning]) => [code(word), sentence(meaning)]);

/** The page about requests that an upstream does not serve. */
export function failoverPage(): string {
  return page('Failover', [
    'What becomes of a request that an upstream does not serve, as long as the client has nothing of an answer. `appscli explain failover` prints the same, and `appscli explain failover <word>` one of the words.',
    '## By outcome',
    table([...Object.keys(FAILOVER_COLUMNS), 'When', 'Reason'], Object.entries(FAILOVER_TABLE).map(cells)),
    Object.entries(FAILOVER_COLUMNS)
      .map(([title, meaning]) => `- ${title}: ${prose(meaning)}`)
      .join('\n'),
    '## Besides',
    FAILOVER_NOTES.map((note) => `- ${prose(note)}`).join('\n'),
    '## Reasons of attempts',
    'What happened after an attempt, in audit rows and the ledger.',
    table(['Reason', 'Meaning'], meanings(ATTEMPT_REASONS)),
    '## Reasons why an upstream is not asked',
    'In the fact `route.dropped` and in audit rows.',
    table(['Reason', 'Meaning'], meanings(DROP_REASONS)),
  ]);
}

function fieldsOf(rule: DecisiveField['rule']): string {
  const fields: readonly DecisiveField[] = DECISIVE_FIELDS.filter((field) => field.rule === rule);
  return tableOf(fields, {
    Field: ({ name }) => code(name),
    Where: ({ level }) => (level === 'top' ? 'top level' : 'anywhere'),
    Protocol: ({ protocols }) => protocolNames(protocols, 'all'),
    'What it decides': ({ meaning }) => sentence(meaning),
    'Passes anyway': ({ harmless = [] }) => codes(harmless),
    'Documented in': ({ source }) => source,
  });
}

/** The page about fields and headers beside `model` that decide over models, prices and accounts. */
export function decisivePage(): string {
  return page('Decisive fields', [
    'What a request may use is decided by its `model`, and by these fields and headers beside it. Everything else passes as it was sent, known or not. "Anywhere" is any depth outside of content: conversations (but for the tools they define), instructions, schemas and arguments of tools, metadata. Camel case, kebab case and letters that parsers fold are the same field. The stage `read-body` finds them (fact `request.decisive_fields`), and `resolve-route` checks them when it knows the upstream.',
    '## Fields that name models',
    'Every name must be that of a model the caller may use, as the upstream calls it, and its requests must go to the same upstream; else the request is refused with `model_not_found` and the place. The models are in the fact `request.other_models`, and money is reserved for the most expensive. Besides these, so does every field whose name ends in `model`, `models`, `model_id`, `model_override`, `fallbacks` and the like, every text outside of content that is the name of a model of gateway.yaml (if it has a digit, a hyphen, a dot, a slash, a colon or an at sign, as other words may be an alias), and every tool of a router (`type: router:tool`) that may ask a model it does not name. `allow_fields` of an upstream, with the place as in `moderation.model`, lets models pass that gateway.yaml does not know.',
    fieldsOf('check'),
    '## Fields that change the price',
    'A value needs a price in the `pricing` of every model that the request may use: `service_tiers`, `speeds`, `inference_geos`, and for audio `audio_input` and `audio_output`. Without one the request is refused with `invalid_request`. Where the gateway cannot price a field, `allow_fields` of an upstream lets it pass, and then limits do not see what it costs.',
    fieldsOf('price'),
    '## Fields that choose who serves or pays',
    'They are refused with `invalid_request`, unless `allow_fields` of the upstream lists them. So is every field whose name ends like an account (`workspace_id`, `organization`, `project`, `tenant_id`, `billing_account`) or a credential (`api_key`, `virtual_key`), or begins with the cloud of an account (`aws_`, `azure_`, `vertex_`), outside of tools and servers of tools. In the query of a request all decisive fields are refused, in every spelling that servers read (`model[]`, `options.model`, behind a semicolon, encoded twice), unless `allow_fields` lists them.',
    fieldsOf('refuse'),
    '## Fields that cost money within what is reserved',
    'They pass. What they cost is reserved for and billed like the rest.',
    fieldsOf('pass'),
    '## Headers',
    "Headers whose names end in `-beta` pass as they are; where one lengthens the context window (`context-1m-...`), the reservation counts with the longer one. The following are dropped, unless `allow_headers` of the upstream lists them, and named in the fact `request.dropped_headers` and the audit record: clients send some of them by habit, and without them the account of the upstream's credential pays. A name that ends in `*` stands for all that begin so; `x-openrouter-title` and `x-openrouter-categories` pass. So are headers whose names end like an account, a model, a deployment, a service tier or a key. `http-referer` and `x-title` only say who asks, and pass. Nor does an upstream get what proxies and sign-ins in front of the gateway add (`x-forwarded-*`, `forwarded`, `x-real-ip` and their kin): they describe the way to the gateway, and a router or server behind it would go by them. `via` and `cdn-loop` pass, as loops are found by them. What becomes of headers of tracing is in [Headers](headers.md).",
    table(
      ['Header', 'Decides over', 'What it chooses', 'Documented in'],
      DECISIVE_HEADERS.map(({ name, decides, meaning, source }) => [code(name), decides, sentence(meaning), source]),
    ),
  ]);
}

/** Headers of tracing that carry this, by who defines them. */
function tracing(kind: 'baggage' | 'trace'): string {
  const headers = TRACE_HEADERS.filter(({ carries }) => carries === kind);
  return tableOf(headers, { Header: ({ names }) => codes(names), 'Defined by': ({ source }) => source });
}

/** The page about the headers of answers, and those of requests that are about tracing. */
export function headersPage(): string {
  return page('Headers', [
    "Every header of an upstream's answer passes to the client as the upstream spelled, ordered and repeated it, on every pipeline, with these exceptions. `appscli explain header <name>` says what happens to one.",
    '## Of the connection',
    `They end at the next machine (RFC 9110 section 7.6.1), as do those that \`connection\` names: ${codes(CONNECTION_HEADERS)}.`,
    "## Of the gateway's host",
    "They act on the host an answer comes from, or on the proxies in front of it, and that host is the gateway's. No client of models needs them. A name that ends in `*` means all that begin so.",
    tableOf(ORIGIN_HEADERS, { Header: ({ names }) => codes(names), 'What it does': ({ effect }) => `it ${effect}` }),
    '## Written by the gateway',
    "`x-gateway-request-id`; `x-gateway-cache-ttl: 5m` where a request for a prompt cache of an hour was made one of five minutes (`upstreams[].on_unsupported_cache`); the headers that tell callers their own limits, in the place of the upstream's; the `refusal_header` of the profile on refusals; `content-length` and `content-encoding` of an answer that is translated; `access-control-*` and `vary: origin` for pages of `server.cors.origins`; `x-accel-buffering: no` on every event stream, in the place of the upstream's own, so that proxies in front pass it on as it comes.",
    '## Tracing: headers of requests',
    "`telemetry.propagate` says what upstreams get of the trace of a request. `verbatim`, the default: these headers as the client sent them, none where it sent none. `join`: a `traceparent` of the gateway, whose parent is the span of the attempt, and the client's `tracestate`; `sampled` is what the ratio of sampling says of the trace, and off where no traces are sent. `strip`: none. Those that are kept back or replaced are named in the fact `request.dropped_headers` and the audit record.",
    tracing('trace'),
    'Baggage carries whatever a program puts there, such as who its user is. It never reaches an upstream, whatever `propagate` and `allow_headers` say:',
    tracing('baggage'),
  ]);
}
