import { defineStage } from 'appscli';

/** Letters and digits of any script, a dot in the domain, and no length limit to bypass. */
const ADDRESS = /[\p{L}\p{N}._%+-]+@((?:[\p{L}\p{N}-]+\.)+\p{L}{2,})/u;

export default defineStage({
  name: 'redact-email-addresses',
  version: 1,
  summary: 'Replaces e-mail addresses in responses.',
  options: {
    type: 'object',
    additionalProperties: false,
    properties: {
      replacement: {
        type: 'string',
        minLength: 1,
        default: '[e-mail address]',
        description: 'The replacement of an address.',
      },
      kept_domains: {
        type: 'array',
        items: { type: 'string', minLength: 1 },
        default: [],
        description: 'Domains whose addresses are kept, in lower case.',
      },
    },
  },
  examples: [
    { title: 'Redact every address', yaml: '- stage: redact-email-addresses' },
    {
      title: 'Keep the addresses of one domain',
      yaml: '- stage: redact-email-addresses\n  options: { kept_domains: [support.example.com] }',
    },
  ],
  needs: ['rewrite-response'],
  create({ replacement, kept_domains }) {
    const kept = new Set(kept_domains);
    const replace = (address: string) => {
      const domain = address.slice(address.lastIndexOf('@') + 1).toLowerCase();
      return kept.has(domain) ? undefined : replacement;
    };
    const rewriting = {
      replacements: [{ find: ADDRESS, replace }],
      // The longest address of RFC 5321: 64 characters before the @, 255 after it.
      window_characters: 320,
      // Buffers only the last word of a stream.
      never_contains: /\s/,
    };
    return { rewrite: () => rewriting };
  },
});
