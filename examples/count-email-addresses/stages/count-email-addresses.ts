import { defineStage, openPrompt } from 'appscli';

const ADDRESS = /[\p{L}\p{N}._%+-]+@(?:[\p{L}\p{N}-]+\.)+\p{L}{2,}/gu;

export default defineStage({
  name: 'count-email-addresses',
  version: 1,
  summary: 'Counts the different e-mail addresses in a request.',
  options: { type: 'object', additionalProperties: false, properties: {} },
  examples: [{ title: 'Count', yaml: '- stage: count-email-addresses' }],
  // Conditions read it as count-email-addresses.found; the audit record has the number, never an address.
  facts: {
    found: { type: 'integer', description: 'Number of different e-mail addresses in the request.', recorded: true },
  },
  needs: ['raw-body'],
  create() {
    return {
      async request(ctx) {
        const found = new Set<string>();
        for (const { text } of await openPrompt(ctx)) {
          for (const [address] of text.matchAll(ADDRESS)) found.add(address.toLowerCase());
        }
        ctx.setFact('found', found.size);
        return undefined;
      },
    };
  },
});
