import { defineStage } from 'appscli';

/** Letters and digits of any script, a dot in the domain, and no bound that a text could slip past. */
const ADDRESS = /[\p{L}\p{N}._%+-]+@((?:[\p{L}\p{N}-]+\.)+\p{L}{2,})/u;

export default defineStage({
  name: 'redact-email-addresses',
  version: 1,
  summary: 'Replaces e-mail addresses in answers.',
  options: {
    type: 'object',
    additionalProperties: false,
    properties: {
      replacement: {
        type: 'string',
        minLength: 1,
        default: '[e-mail address]',
        description: 'What stands in the place of an address.',
      },
      kept_domains: {
        type: 'array',
        items: { type: 'string', minLength: 1 },
        default: [],
        description: 'Domains whose addresses stay, in lower case, such as the one of support.',
      },
    },
  },
  examples: [
    { title: 'Redact every address', yaml: '- stage: redact-email-addresses' },
    {
      title: 'Keep those of one domain',
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
      // Longer than any address that mail reaches (RFC 5321: 64 before the @, 255 behind it).
      window_characters: 320,
      // So that no more than the last word of a stream waits.
      never_contains: /\s/,
    };
    return { rewrite: () => rewriting };
  },
});
