import { type DescribedOperation, operationOf } from '../admin/description.ts';
import { splitInput } from '../admin/input.ts';
import type { AdminApi } from '../admin/operations.ts';
import { StartError } from '../contract/start-error.ts';
import { fieldsOf } from './answers.ts';
import type { ApiClient } from './api-client.ts';
import { sentence } from './errors.ts';
import { shapeAnswer } from './shape-answer.ts';

/** The admin operations of a running gateway. Raises StartError with what the gateway says when it refuses. */
export function createAdminApi(client: ApiClient, exitCodeOf: (status: number) => number): AdminApi {
  return async (name, input) => {
    const operation = operationOf(name);
    const sent = splitInput(operation, input);
    const { status, body } = await client.request(operation.method, targetOf(operation, sent), sent.body);
    if (status < 300) return shapeAnswer(operation.answer, body) as never;
    const said = sentence(fieldsOf(fieldsOf(body).error).message);
    const message = said ?? `${client.base_url} answered ${operation.method} ${operation.path} with status ${status}`;
    throw new StartError(message, { exit_code: exitCodeOf(status) });
  };
}

function targetOf({ path }: DescribedOperation, sent: ReturnType<typeof splitInput>): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(sent.path[name] ?? ''));
  const query = new URLSearchParams(sent.query as Record<string, string>);
  return query.size === 0 ? filled : `${filled}?${query}`;
}
