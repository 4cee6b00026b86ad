import { ERRORS, type ErrorCode, type ErrorSpec } from '../../contract/errors.ts';
import { FACTS, type FactKind, type FactPath } from '../../contract/facts.ts';
import { wrapText } from '../../kit/text/wrap-text.ts';
import { OPERATORS, type Operator, type OperatorSpec } from '../../rules/operators.ts';
import { CONNECTION_HEADERS } from '../../upstreams/connection-headers.ts';
import type { OriginHeaders } from '../../upstreams/origin-headers.ts';
import { describeRequestHeader } from './explain-decisive.ts';
import { labelled } from './explain-stage.ts';

/** Words for the kinds of facts. */
const FACT_KINDS: Readonly<Record<FactKind, string>> = {
  string: 'text',
  number: 'number',
  boolean: 'true or false',
  strings: 'list of texts',
  object: 'mapping',
};

/** What a fact can be: its kind, or its values where they are a closed set. */
export function factType(path: FactPath): string {
  const { kind, values }: { kind: FactKind; values?: readonly string[] } = FACTS[path];
  return values === undefined ? FACT_KINDS[kind] : values.join(', ');
}

/** How an operator is written: `{ glob: [a, b] }`. */
export function operatorSignature(name: Operator): string {
  const { operands }: OperatorSpec = OPERATORS[name];
  const [min, max] = operands;
  const letters = [...'abcdefgh'];
  const shown = letters.slice(0, Math.max(min, 1));
  const more =
    max > shown.length ? [Number.isFinite(max) ? `${letters.slice(shown.length, max).join(', ')}?` : '...'] : [];
  const key = /^\w+$/.test(name) ? name : `"${name}"`;
  return max === 1 ? `{ ${key}: a }` : `{ ${key}: [${[...shown, ...more].join(', ')}] }`;
}

/** A fact for a person. */
export function describeFact(path: FactPath, writers: readonly string[], line_width: number): string[] {
  return [
    `fact ${path}`,
    '',
    ...wrapText(`${FACTS[path].meaning}.`, line_width),
    '',
    ...labelled('is', factType(path), line_width),
    ...labelled('written by', writers.length === 0 ? 'the engine' : writers.join(', '), line_width),
    ...labelled('in a rule', `{ var: ${path} }`, line_width),
  ];
}

/** An operator for a person. */
export function describeOperator(name: Operator, line_width: number): string[] {
  const { meaning, example }: OperatorSpec = OPERATORS[name];
  return [
    `operator ${name}`,
    '',
    ...wrapText(`${meaning}.`, line_width),
    '',
    ...labelled('written', operatorSignature(name), line_width),
    '',
    'Example',
    '',
    `  when: ${example}`,
  ];
}

/** An error code of the catalogue for a person. */
export function describeError(code: ErrorCode, raised_by: readonly string[], line_width: number): string[] {
  const { status, type, compat, meaning, retry }: ErrorSpec = ERRORS[code];
  // The stage fail raises what it is told to, so that it says nothing about where an error comes from.
  const is_of_stages = raised_by.some((stage) => stage !== 'fail');
  const retried = retry === undefined ? [] : labelled('may repeat', retry ? 'yes' : 'no', line_width);
  return [
    `error ${code}`,
    '',
    ...wrapText(`${meaning}.`, line_width),
    '',
    ...labelled('status', String(status), line_width),
    ...labelled('messages', `type ${type}`, line_width),
    ...labelled('chat', `type ${compat.type}${compat.code === null ? '' : `, code ${compat.code}`}`, line_width),
    ...retried,
    ...labelled('raised by', [...(is_of_stages ? [] : ['the engine']), ...raised_by].join(', '), line_width),
  ];
}

/** Whether a text can be the name of a header. */
export function isHeaderName(text: string): boolean {
  return /^[\w!#$%&'*+.^`|~-]+$/.test(text);
}

/** What becomes of a header of an upstream's answer, and of a request, for a person. */
export function describeHeader(name: string, kept_back: OriginHeaders | undefined, line_width: number): string[] {
  const says =
    kept_back === undefined
      ? CONNECTION_HEADERS.includes(name.toLowerCase())
        ? 'In an answer it belongs to the connection with the upstream and ends there.'
        : name.toLowerCase() === 'x-accel-buffering'
          ? 'Of an event stream it is "no" whatever the upstream says; in other answers it passes from the upstream to the client.'
          : 'In an answer it passes from the upstream to the client.'
      : `In an answer it is kept from clients on every pipeline: it ${kept_back.effect}.`;
  return [
    `header ${name}`,
    '',
    ...wrapText(says, line_width),
    ...(kept_back === undefined ? [] : ['', ...labelled('like it', kept_back.names.join(', '), line_width)]),
    '',
    ...wrapText(describeRequestHeader(name), line_width),
  ];
}
