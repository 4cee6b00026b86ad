import { DECISIVE_FIELDS, type DecisiveField } from '../../engine/protocols/body/decisive-fields.ts';
import { DECISIVE_HEADERS } from '../../engine/upstreams/decisive-headers.ts';
import { code, codes, page, table } from './markdown.ts';
import { protocolNames, sentence } from './words.ts';

function fieldsOf(rule: DecisiveField['rule']): string {
  return table(
    ['Field', 'Where', 'Protocol', 'What it decides', 'Passes anyway', 'Documented in'],
    DECISIVE_FIELDS.filter((field) => field.rule === rule).map((field) => [
      code(field.name),
      field.level === 'top' ? 'top level' : 'anywhere',
      protocolNames(field.protocols, 'all'),
      sentence(field.meaning),
      codes(field.harmless ?? []),
      field.source,
    ]),
  );
}

/** The page about fields and headers beside `model` that decide over models, prices and accounts. */
export function decisivePage(): string {
  return page('Decisive fields', [
    'What a request may use is decided by its `model`, and by these fields and headers beside it. Everything else passes as it was sent, known or not. "Anywhere" is any depth outside of content: conversations (but for the tools they define), instructions, schemas and arguments of tools, metadata. Camel case, kebab case and letters that parsers fold are the same field. The stage `read-body` finds them (fact `request.decisive_fields`), and `resolve-route` checks them when it knows the upstream.',
    '## Fields that name models',
    'Every name must be that of a model the caller may use, as the upstream calls it, and its requests must go to the same upstream; else the request is refused with `model_not_found` and the place. The models are in the fact `request.other_models`, and money is reserved for the most expensive. Besides these, so does every field whose name ends in `model`, `models`, `model_id`, `model_override`, `fallbacks` and the like, every text outside of content that is the name of a model of gateway.yaml (if it has a digit, a hyphen, a dot, a slash, a colon or an at sign, as other words may be an alias), and every tool of a router (`type: router:tool`) that may ask a model it does not name. `allow_fields` of an upstream, with the place as in `moderation.model`, lets models pass that gateway.yaml does not know.',
    fieldsOf('check'),
    '## Fields that change the price',
    'A value needs a price in the `pricing` of every model that the request may use: `service_tiers`, `speeds`, `inference_geos`, and for audio `audio_input` and `audio_output`. Without one the request is refused with `invalid_request`. Where the gateway cannot price a field, `allow_fields` of an upstream lets it pass, and then limits do not see what it costs.',
    fieldsOf('price'),
    '## Fields that choose who serves or pays',
    'They are refused with `invalid_request`, unless `allow_fields` of the upstream lists them. So is every field whose name ends like an account (`workspace_id`, `organization`, `project`, `tenant_id`, `billing_account`) or a credential (`api_key`, `virtual_key`), or begins with the cloud of an account (`aws_`, `azure_`, `vertex_`), outside of tools and servers of tools. In the query of a request all decisive fields are refused, in every spelling that servers read (`model[]`, `options.model`, behind a semicolon, encoded twice), unless `allow_fields` lists them.',
    fieldsOf('refuse'),
    '## Fields that cost money within what is reserved',
    'They pass. What they cost is reserved for and billed like the rest.',
    fieldsOf('pass'),
    '## Headers',
    "Headers whose names end in `-beta` pass as they are; where one lengthens the context window (`context-1m-...`), the reservation counts with the longer one. The following are dropped, unless `allow_headers` of the upstream lists them, and named in the fact `request.dropped_headers` and the audit record: clients send some of them by habit, and without them the account of the upstream's credential pays. A name that ends in `*` stands for all that begin so; `x-openrouter-title` and `x-openrouter-categories` pass. So are headers whose names end like an account, a model, a deployment, a service tier or a key. `http-referer` and `x-title` only say who asks, and pass. Nor does an upstream get what proxies and sign-ins in front of the gateway add (`x-forwarded-*`, `forwarded`, `x-real-ip` and their kin): they describe the way to the gateway, and a router or server behind it would go by them. `via` and `cdn-loop` pass, as loops are found by them. What becomes of headers of tracing is in [Headers](headers.md).",
    table(
      ['Header', 'Decides over', 'What it chooses', 'Documented in'],
      DECISIVE_HEADERS.map(({ name, decides, meaning, source }) => [code(name), decides, sentence(meaning), source]),
    ),
  ]);
}
