import type { GatewayConfig, ModelConfig } from '../../contract/config.ts';

/** The date of a version that providers put behind a model's name: `coder-1-20260301`, `coder-1-2026-03-01`, `coder-1@20260301`. */
const SNAPSHOT = /[-@:](?:\d{8}|\d{4}-\d{2}-\d{2})$/;

/** The model of gateway.yaml that an upstream's name for a model stands for; `undefined` for a name that nobody knows. */
export type AnsweringModel = (name: string, upstream: string, requested: string) => ModelConfig | undefined;

/**
 * Finds models by what upstreams call them: what the upstream is told to call it, its id, an alias, or a dated version of one
 * of these, with or without the name of a vendor before a slash. Where several go by one name, or by one name but for its vendor,
 * it is the requested one.
 * @param find the model of an id where gateway.yaml names none.
 */
export function answeringModels(
  { models }: Pick<GatewayConfig, 'models'>,
  find?: (id: string) => ModelConfig | undefined,
): AnsweringModel {
  const by_id = new Map(models.map((model) => [model.id, model]));
  const by_name = new Map<string, ModelConfig>();
  for (const model of models) {
    for (const name of [model.id, ...model.aliases]) by_name.set(name, by_name.get(name) ?? model);
  }
  const namesOf = ({ id, aliases, upstream_ids }: ModelConfig, upstream: string) => [
    upstream_ids[upstream] ?? id,
    id,
    ...aliases,
  ];
  const findAs = (name: string, upstream: string, requested: ModelConfig | undefined): ModelConfig | undefined => {
    if (requested !== undefined && namesOf(requested, upstream).includes(name)) return requested;
    return models.find(({ upstream_ids }) => upstream_ids[upstream] === name) ?? by_name.get(name) ?? find?.(name);
  };
  return (name, upstream, requested) => {
    const asked = by_id.get(requested) ?? find?.(requested);
    // Nearly every answer.
    if (asked !== undefined && (name === asked.id || name === asked.upstream_ids[upstream])) return asked;
    const undated = name.replace(SNAPSHOT, '');
    if (asked !== undefined && namesOf(asked, upstream).some((own) => isShortFor(own.replace(SNAPSHOT, ''), undated)))
      return asked;
    for (const spelling of spellingsOf(name)) {
      const found = findAs(spelling, upstream, asked);
      if (found !== undefined) return found;
    }
    return undefined;
  };
}

/** Whether one of two names is the other with vendors or places before a slash. */
function isShortFor(one: string, other: string): boolean {
  return one === other || one.endsWith(`/${other}`) || other.endsWith(`/${one}`);
}

function spellingsOf(name: string): string[] {
  const bare = name.slice(name.lastIndexOf('/') + 1);
  return [name, name.replace(SNAPSHOT, ''), bare, bare.replace(SNAPSHOT, '')];
}
