import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { isContent } from '../../../engine/telemetry/relay/content.ts';
import { isClaimed } from '../../../engine/telemetry/relay/identity.ts';
import { Permitted } from '../../../engine/telemetry/relay/permitted.ts';

const says = (name: string, stringValue: string) => isContent(name, { stringValue });

describe('attributes of coding clients', () => {
  test('with text of prompts, tools and answers are content', () => {
    // As the three clients were seen to send them with everything switched on, and as the conventions name them.
    const names = `prompt prompt_text user_prompt system_prompt system_prompt_preview new_context system_reminders response
      response.model_output response.thinking_output tool_input tool_output tool_parameters full_command bash_command arguments
      output body body_ref error error.message cwd file_path file.name api.path gen_ai.input.messages gen_ai.output.messages
      gen_ai.system_instructions gen_ai.tool.definitions gen_ai.tool.call.arguments gen_ai.tool.call.result gen_ai.prompt
      gen_ai.completion input.value output.value llm.prompts.0.content traceloop.entity.input exception.message
      exception.stacktrace process.command_args process.command_line url.full url.query db.query.text messageContent`;
    for (const name of names.split(/\s+/)) assert.ok(says(name, 'some words'), name);
  });

  test('about them are not', () => {
    const values: Readonly<Record<string, string>> = {
      'event.name': 'user_prompt',
      prompt_length: '28',
      'prompt.id': '75b2c323-a743-41c4-b977-fcc56075ecee',
      system_prompt_hash: 'sp_e6af02bec971',
      tool_name: 'Bash',
      'gen_ai.tool.name': 'Bash',
      'gen_ai.system': 'anthropic',
      'gen_ai.request.model': 'coder-1',
      'gen_ai.response.id': 'msg_1',
      'gen_ai.response.finish_reasons': 'stop',
      'http.request.method': 'POST',
      'http.response.status_code': '200',
      query_source: 'repl_main_thread',
      error_type: 'APIConnectionError',
      'error.type': 'timeout',
      'exception.type': 'TypeError',
      reasoning_effort: 'high',
      reasoning_summary: 'auto',
      'code.file.path': 'core/src/client.rs',
      'service.name': 'claude-code',
      body_truncated: 'true',
      mcp_servers: '',
      'session.id': 'a b',
    };
    for (const [name, text] of Object.entries(values)) assert.ok(!says(name, text), name);
    assert.ok(!isContent('prompt_tokens', { intValue: 12 }));
    assert.ok(!isContent('input', { boolValue: true }));
  });

  test('are content by what they hold where no name says so', () => {
    assert.ok(says('note', 'x'.repeat(257)));
    assert.ok(says('note', 'one\ntwo'));
    assert.ok(says('tool', '{"name":"Bash","description":"runs"}'));
    assert.ok(says('tool', '["a"]'));
    assert.ok(says('prompt_name', 'a prompt that calls itself a name'));
    assert.ok(isContent('x', { bytesValue: Buffer.from('hi') }));
    assert.ok(isContent('x', { arrayValue: { values: [{ stringValue: 'a' }, { stringValue: 'a\nb' }] } }));
    const inside = { kvlistValue: { values: [{ key: 'prompt', value: { stringValue: 'tell me' } }] } };
    assert.ok(isContent('x', inside));
    assert.ok(isContent('x', { arrayValue: { values: [inside] } }));
  });

  test('that hold an address of somebody, or a place in the folders of a user, are content whatever their name', () => {
    for (const text of [
      'ada@example.com',
      'Ada <ada.l@mail.example.co.uk>',
      '/home/ada',
      '/home/ada/src/secret.ts',
      '/Users/ada/x',
      'C:\\Users\\ada',
      'file:///home/ada/x',
      '~/notes',
      '/root/.ssh/id',
      '-v=/home/ada/x',
    ]) {
      for (const name of ['argv0', 'plugin.source', 'note', 'code.file.path', 'host.name', 'event.name']) {
        assert.ok(says(name, text), `${name}=${text}`);
      }
    }
    const harmless = ['/root', '/v1/responses', '@scope/name@1.2.3', 'core/src/client.rs', 'users/list', 'coder@2026'];
    for (const text of harmless) assert.ok(!says('note', text), text);
    assert.ok(says('tool_input1', 'rm'));
    assert.ok(says('argv0', 'deploy'));
    assert.ok(!says('prompt_sha256', 'ab12'));
  });

  test('and names and bodies do not hold those either, unless a reason lets texts through', () => {
    const of = (content: boolean) => new Permitted({ names: ['*'], attributes: ['*'], content });
    const span = { name: 'exec /home/ada/x', attributes: [{ key: 'mail ada@example.com', value: { intValue: 1 } }] };
    const record = { body: { stringValue: 'ada@example.com' } };
    assert.equal(of(false).item('traces', span), undefined);
    assert.deepEqual(of(false).item('traces', { ...span, name: 'exec' })?.attributes, []);
    assert.deepEqual(of(false).item('logs', record)?.body, {});
    assert.equal(of(true).item('traces', span)?.name, span.name);
    assert.deepEqual(of(true).item('logs', record)?.body, record.body);
  });

  test('and names do not pass for those of the gateway, whose panels and alerts would believe them', () => {
    const permitted = new Permitted({ names: ['*'], attributes: ['*'], content: true });
    for (const name of ['gateway.requests', 'gateway_budget_used_ratio', 'Gateway.cost']) {
      assert.equal(permitted.item('metrics', { name }), undefined, name);
    }
    assert.notEqual(permitted.item('metrics', { name: 'claude_code.cost.usage' }), undefined);
    const of = (stringValue: string) => ({ attributes: [{ key: 'service.name', value: { stringValue } }] });
    assert.deepEqual(permitted.owner(of('appscli-gateway')).attributes, []);
    assert.equal((permitted.owner(of('claude-code')).attributes as unknown[]).length, 1);
  });

  test('that say who the user is are claims', () => {
    const claims = [
      'user.id',
      'user.email',
      'user',
      'User.Name',
      'enduser.id',
      'identity.source',
      'gateway.team',
      'email',
    ];
    claims.push('user_id', 'userId', 'account_uuid', 'user.account_uuid', 'github.user_name', 'customer-email');
    claims.push('process.owner', 'process.real_user.name', 'git.author', 'author.name', 'login', 'vcs.committer');
    for (const name of claims) assert.ok(isClaimed(name), name);
    for (const name of [
      'user_prompt',
      'user_agent.original',
      'session.id',
      'organization.id',
      'service.name',
      'users',
    ]) {
      assert.ok(!isClaimed(name), name);
    }
  });
});
