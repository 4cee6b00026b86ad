import type { IncomingMessage, ServerResponse } from 'node:http';
import type { CheckResult } from '../../../engine/base/contract/checks.ts';
import type { Subject } from '../../../engine/edge/selfcheck/check.ts';
import { CHECKS } from '../../../engine/edge/selfcheck/checks.ts';
import type { Echo } from '../../../engine/edge/selfcheck/echo/open-echo.ts';
import { forwardTo, listen, makeCheck, subjectAt, TOKEN } from '../support.ts';

/** A gateway's response: status, headers and body, or JSON with status 200. */
export interface Said {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly json?: unknown;
  readonly text?: string;
}

/** The fields of a request to a gateway of a test. */
export interface Reply {
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly json: Readonly<Record<string, unknown>>;
}

/** An error of the Messages API. */
export function error(status: number, type: string, message: string): Said {
  return { status, json: { type: 'error', error: { type, message } } };
}

/** A correct gateway's rejections before it forwards anything; `undefined` for forwarded requests. */
export function refusedBy({ headers, json }: Reply): Said | undefined {
  if (headers.authorization !== `Bearer ${TOKEN}`)
    return error(401, 'authentication_error', 'This token is not known.');
  const { model = 'coder-1' } = json;
  return model === 'coder-1' ? undefined : error(404, 'not_found_error', `There is no model ${model}.`);
}

function say(res: ServerResponse, { status = 200, headers = {}, json, text = JSON.stringify(json) }: Said): void {
  res.writeHead(status, { 'content-type': 'application/json', ...headers }).end(text);
}

function fieldsIn(body: Buffer): Readonly<Record<string, unknown>> {
  return body.length === 0 ? {} : JSON.parse(body.toString());
}

/** Makes one check at a gateway that answers every request as scripted. */
export async function checkAt(
  id: string,
  response: (asked: Reply) => Said,
  more: Partial<Subject> = {},
): Promise<CheckResult> {
  const gateway = await listen(({ req, body, res }) =>
    say(res, response({ path: req.url!, headers: req.headers, json: fieldsIn(body) })),
  );
  try {
    return await makeCheck(CHECKS, id, subjectAt(gateway.url, more));
  } finally {
    await gateway.close();
  }
}

/** Makes one check at a correct gateway, except for `instead`. */
export async function checkBeside(
  id: string,
  echo: Echo,
  instead: (asked: Reply) => Said | undefined = () => undefined,
): Promise<CheckResult> {
  const gateway = await forwardTo(echo.url, {
    instead({ req, res, body }) {
      const asked = { path: req.url!, headers: req.headers, json: fieldsIn(body) };
      const said = instead(asked) ?? refusedBy(asked);
      if (said !== undefined) say(res, said);
      return said !== undefined;
    },
  });
  try {
    return await makeCheck(CHECKS, id, subjectAt(gateway.url, { model: 'coder-1' }));
  } finally {
    await gateway.close();
  }
}
