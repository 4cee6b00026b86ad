import { shortText } from '../answer-lines.ts';
import { APIS } from '../apis.ts';
import type { SelfCheckOutcome } from '../check.ts';
import { outcomeOfFaults } from '../compat-request.ts';
import type { Echo, EchoedRequest } from '../echo/echo.ts';
import type { Subject } from '../subject.ts';
import { type Forwarded, forward, isExplicitRefusal, notForwarded, servedPath } from './forward.ts';

/** Newer than any that a gateway may have been made for, so that one that always sends the same is noticed. */
const NEW_VERSION = '2026-11-01';
const USUAL_VERSION = '2023-06-01';
const BETAS = ['selfcheck-one-2026-11-01', 'selfcheck-two-2026-11-02'] as const;

/** What coding clients say about themselves. */
const CLIENT_HEADERS: Readonly<Record<string, string>> = {
  'user-agent': 'selfcheck-cli/2.1.0 (external, cli)',
  'x-app': 'cli',
  'x-stainless-lang': 'js',
  'x-stainless-retry-count': '0',
  'x-stainless-timeout': '600',
  'x-selfcheck-session-id': 'a-session-of-a-self-check',
};

function namedHeaders(prefixes: readonly string[], version: string): Record<string, string> {
  return Object.fromEntries(
    prefixes.flatMap((prefix) => [
      [`${prefix}-version`, version],
      [`${prefix}-beta`, BETAS.join(',')],
    ]),
  );
}

/** Whether version and beta headers arrive as they were sent, or are refused by name. */
export async function checkVersionAndBeta(subject: Subject, echo: Echo): Promise<SelfCheckOutcome> {
  const send = (version: string) =>
    forward(subject, echo, {
      headers: namedHeaders(subject.header_prefixes, version),
      note: `with version ${version} and betas nobody knows`,
    });
  const newest = await send(NEW_VERSION);
  const knows_versions = isExplicitRefusal(newest);
  const version = knows_versions ? USUAL_VERSION : NEW_VERSION;
  const forwarded = knows_versions ? await send(version) : newest;
  if (isExplicitRefusal(forwarded) && /beta/i.test(forwarded.answer.text)) {
    return { verdict: 'ok', found: 'betas that are not known are refused, and said to be', ...forwarded.travelled };
  }
  const missing = notForwarded(forwarded);
  if (missing !== undefined) return missing;
  return judge(forwarded, subject.header_prefixes, version);
}

function judge(forwarded: Forwarded, prefixes: readonly string[], version: string): SelfCheckOutcome {
  const received = forwarded.received!;
  const faults_of = new Map(
    prefixes.map((prefix) => [
      prefix,
      [...versionFault(received, `${prefix}-version`, version), ...betaFault(received, `${prefix}-beta`)],
    ]),
  );
  const whole = prefixes.filter((prefix) => faults_of.get(prefix)!.length === 0);
  const faults = [...faults_of.values()].flat();
  // Clients use the names of one prefix: where those pass, the others are nobody's.
  const passes = whole.length > 0 && faults.every((fault) => fault.endsWith(MISSING));
  const extra = prefixes.flatMap((prefix) => addedBetas(received, `${prefix}-beta`));
  return outcomeOfFaults(forwarded, {
    good: `${whole.map((prefix) => `${prefix}-version and ${prefix}-beta`).join(', ')} arrive as they were sent`,
    faults: passes ? [] : faults,
    lesser: extra,
    remedy: 'have the gateway pass version and beta headers on unchanged, without a list of those it knows',
    details: passes ? faults : [],
  });
}

const MISSING = 'does not arrive';

function headerOf(received: EchoedRequest, name: string): string | undefined {
  const value = received.headers[name];
  return value === undefined ? undefined : typeof value === 'string' ? value : value.join(',');
}

function versionFault(received: EchoedRequest, name: string, sent: string): string[] {
  const came = headerOf(received, name);
  if (came === undefined) return [`${name} ${MISSING}`];
  return came === sent ? [] : [`${name} arrives as ${shortText(came, 40)} in place of ${sent}`];
}

const listOf = (value: string | undefined) =>
  (value ?? '')
    .split(',')
    .map((each) => each.trim())
    .filter((each) => each !== '');

function betaFault(received: EchoedRequest, name: string): string[] {
  const came = headerOf(received, name);
  if (came === undefined) return [`${name} ${MISSING}`];
  const lost = BETAS.filter((beta) => !listOf(came).includes(beta));
  return lost.length === 0 ? [] : [`${name} arrives without ${lost.join(' and ')}`];
}

function addedBetas(received: EchoedRequest, name: string): string[] {
  const added = listOf(headerOf(received, name)).filter((beta) => !(BETAS as readonly string[]).includes(beta));
  return added.length === 0 ? [] : [`${added.map((beta) => shortText(beta, 40)).join(', ')} was added to ${name}`];
}

/** Whether the headers arrive in which a client says what it is. */
export async function checkClientHeaders(subject: Subject, echo: Echo): Promise<SelfCheckOutcome> {
  const forwarded = await forward(subject, echo, { headers: CLIENT_HEADERS, note: 'with headers of a coding client' });
  const missing = notForwarded(forwarded);
  if (missing !== undefined) return missing;
  const lost = Object.entries(CLIENT_HEADERS).flatMap(([name, sent]) => {
    const came = headerOf(forwarded.received!, name);
    if (came === undefined) return [`${name} ${MISSING}`];
    return came === sent ? [] : [`${name} arrives otherwise`];
  });
  return outcomeOfFaults(forwarded, {
    good: `${Object.keys(CLIENT_HEADERS).length} headers of a client arrive as they were sent`,
    faults: [],
    lesser: lost,
    remedy:
      'have the gateway pass all headers on but those of the connection and credentials: upstreams tell clients by them',
  });
}

/** Whether the query arrives, which coding clients add to the path. */
export async function checkQuery(subject: Subject, echo: Echo): Promise<SelfCheckOutcome> {
  const query = '?beta=true&selfcheck=1';
  const forwarded = await forward(subject, echo, { path: `${APIS.messages.path}${query}` });
  const missing = notForwarded(forwarded);
  if (missing !== undefined)
    return {
      ...missing,
      remedy: 'have the gateway look at the path without its query: clients send /v1/messages?beta=true',
    };
  const { path } = forwarded.received!;
  return outcomeOfFaults(forwarded, {
    good: 'path and query arrive as they were sent',
    faults: [],
    lesser: path.endsWith(query)
      ? []
      : [`the query arrives as ${shortText(path.replace(/^[^?]*/, '') || 'nothing', 60)} in place of ${query}`],
    remedy: 'have the gateway pass the query on: it switches features of the upstream on',
  });
}

/** Whether the caller's token stays with the gateway. */
export async function checkCredential(subject: Subject, echo: Echo): Promise<SelfCheckOutcome> {
  const forwarded = await forward(subject, echo, { path: await servedPath(subject, echo) });
  const missing = notForwarded(forwarded);
  if (missing !== undefined) return missing;
  const { raw_headers, path, body } = forwarded.received!;
  const names = raw_headers.filter((_, index) => index % 2 === 0 && subject.holdsToken(raw_headers[index + 1] ?? ''));
  const places = [
    ...names.map((name) => `in the header ${shortText(name.toLowerCase(), 60)}`),
    ...(subject.holdsToken(path) ? ['in the path'] : []),
    ...(subject.holdsToken(body) ? ['in the body'] : []),
  ];
  return outcomeOfFaults(forwarded, {
    good: "the caller's token does not reach the upstream",
    faults: places.map((place) => `the upstream gets the caller's token ${place}`),
    remedy:
      "have the gateway take the caller's credential off and send one of its own: who runs the upstream could use the token",
  });
}
