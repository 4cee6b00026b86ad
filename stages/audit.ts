import { defineStage } from '../engine/api.ts';
import { FACTS_OF_RECORDS } from '../engine/domain/audit/index.ts';

const READS = ['request.id', 'request.method', 'request.path', 'request.protocol', 'request.received_at'] as const;

export default defineStage({
  name: 'audit',
  version: 1,
  place: 'finally',
  summary: 'Records every request, rejected ones included, in the audit table and as JSON lines, without prompt texts.',
  options: {
    type: 'object',
    additionalProperties: false,
    properties: {
      table: { type: 'boolean', default: true, description: 'Whether to write records to the audit_log table.' },
      json_lines: {
        type: 'string',
        minLength: 1,
        description: 'File to append records to, one JSON object per line; "-" is standard output.',
      },
    },
  },
  examples: [
    { title: 'Record in the database', yaml: '- stage: audit' },
    { title: 'Record in a file as well', yaml: '- stage: audit\n  options: { json_lines: audit.jsonl }' },
  ],
  reads: READS,
  readsIfSet: FACTS_OF_RECORDS.filter((path) => !(READS as readonly string[]).includes(path)),
  needs: ['database'],
  check: ({ table, json_lines }) =>
    table || json_lines !== undefined ? [] : ['`table: false` without `json_lines` records nothing: set one of them'],
  create({ table, json_lines }, { audit, clock, record: recordOf }) {
    return {
      finally(ctx) {
        const record = recordOf(ctx, clock.now());
        if (table) audit.write(record);
        if (json_lines !== undefined) audit.appendLine(json_lines, record);
      },
    };
  },
});
