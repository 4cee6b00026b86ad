import { APIS } from '../apis.ts';
import { askFor } from '../asked.ts';
import type { SelfCheckOutcome } from '../check.ts';
import { outcomeOfFaults, unservedOutcome } from '../compat-request.ts';
import type { Subject } from '../subject.ts';
import { compareBodies, type Difference } from './compare-bodies.ts';
import { translated } from './forward.ts';

type CompatProtocol = 'chat' | 'responses';

const UNKNOWN = { list: ['b', 'a'], deep: { z: null, a: 1 } };
const TOOL = {
  name: 'zebra',
  description: 'A tool.',
  parameters: { type: 'object', properties: { z: { type: 'string' }, a: { type: 'integer' } }, required: ['z'] },
};

/** A body of the protocol, with fields nobody knows at every level. */
function bodyOf(protocol: CompatProtocol, model: string | undefined, text: string): object {
  if (protocol === 'chat') {
    return {
      model,
      max_tokens: 16,
      stream: false,
      messages: [
        { role: 'system', content: 'You are part of a self-check.' },
        { role: 'user', content: [{ type: 'text', text, selfcheck_unknown: true }], selfcheck_unknown: UNKNOWN },
      ],
      tools: [{ type: 'function', function: { ...TOOL, selfcheck_unknown: 1 } }],
      selfcheck_unknown: UNKNOWN,
    };
  }
  return {
    model,
    input: [
      { type: 'message', role: 'developer', content: [{ type: 'input_text', text: 'You are part of a self-check.' }] },
      { type: 'message', role: 'user', content: [{ type: 'input_text', text, selfcheck_unknown: true }] },
    ],
    tools: [{ type: 'function', ...TOOL, strict: false, selfcheck_unknown: 1 }],
    tool_choice: 'auto',
    parallel_tool_calls: false,
    store: false,
    stream: false,
    max_output_tokens: 16,
    prompt_cache_key: 'of-a-self-check',
    client_metadata: { selfcheck_unknown: 'yes' },
    selfcheck_unknown: UNKNOWN,
  };
}

const tell = ({ path, is }: Difference) => `${path} ${is}`;

/** A gateway may call a model otherwise, and ask for usage that it has to count. */
const mayChange = ({ path }: Difference) => path === 'model' || path.startsWith('stream_options');

/** Whether a request of chat completions or Responses arrives with all fields, where the upstream speaks the same. */
export async function checkCompatBody(subject: Subject, protocol: CompatProtocol): Promise<SelfCheckOutcome> {
  const echo = subject.echo!;
  const expected = echo.expect();
  const body = JSON.stringify(bodyOf(protocol, subject.model, expected.text));
  const asked = await askFor(subject, { method: 'POST', path: APIS[protocol].path, body }, 'with fields nobody knows');
  const { answer, travelled } = asked;
  const received = expected.received();
  if (received === undefined) {
    const is_named = answer.status >= 400 && answer.status < 500 && answer.text.includes('selfcheck_unknown');
    if (is_named) return { verdict: 'ok', found: 'fields that are not known are refused by name', ...travelled };
    return (
      unservedOutcome(asked, APIS[protocol]) ?? {
        verdict: 'skipped',
        found: `the request did not reach the echo upstream; the gateway answered with status ${answer.status}`,
        ...travelled,
      }
    );
  }
  if (received.protocol !== protocol) return { ...translated(received.protocol), ...travelled };
  const { differences, same_bytes, unreadable } = compareBodies(body, received.body);
  const others = differences.filter((each) => !mayChange(each));
  return outcomeOfFaults(asked, {
    good: same_bytes ? `${body.length} bytes arrive as they were sent` : 'all fields arrive as they were sent',
    faults: unreadable
      ? ['what arrives is no JSON object']
      : others
          .filter((each) => !each.put_in_on_top)
          .map(tell)
          .slice(0, 5),
    lesser: others
      .filter((each) => each.put_in_on_top)
      .map(tell)
      .slice(0, 3),
    remedy: 'have the gateway pass the body on as it is: new clients send fields that no gateway knows yet',
  });
}
