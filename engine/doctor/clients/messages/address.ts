import type { Values } from '../../../client-files/broken-file.ts';
import { isLoopbackUrl, urlProblem } from '../../../kit/net/addresses.ts';
import type { Diagnosis } from '../../diagnosis.ts';
import { emptied, type Found, fixIn, howToChange, isSet, type Settings } from './settings.ts';

const NAMED = { id: 'messages.address', title: 'address of the gateway' };

/** What somebody may have copied behind the address: the form of other clients, or the path of an API. */
const API_PATH = /\/v1(?:\/(?:messages|chat\/completions|responses|models))?\/*$/;

/** Where the client goes, and what is wrong with that. */
export interface ExaminedAddress {
  /** Without `/v1` and without a trailing slash; `undefined` where there is none that could be used. */
  readonly root_url: string | undefined;
  readonly found: Found | undefined;
  readonly diagnoses: readonly Diagnosis[];
}

/** Looks at the variable with the address of the gateway. */
export function examineAddress(settings: Settings, variable: string): ExaminedAddress {
  const all = settings.everywhere(variable);
  const found = all.at(-1);
  if (!isSet(found)) return { root_url: undefined, found, diagnoses: emptied(all, NAMED) };
  const { root_url, problem } = judgeAddress(found);
  const hidden = all.slice(0, -1).filter((other) => isSet(other) && plain(other.value) !== plain(found.value));
  const diagnoses = [...(problem === undefined ? [] : [problem]), ...hidden.map((other) => unused(other, found))];
  return { root_url, found, diagnoses };
}

const plain = (text: string) => text.trim().replace(/\/+$/, '');

/** The gateway of an address that somebody wrote, and what is wrong with how it is written. */
export function judgeAddress(
  found: Found,
  named: Pick<Diagnosis, 'id' | 'title'> = NAMED,
  /** What a file has to say to have another address there. */
  valuesFor: (address: string) => Values = (address) => ({ env: { [found.name]: address } }),
): { readonly root_url: string | undefined; readonly problem?: Diagnosis } {
  const given = found.value.trim();
  const wrong = (what: string, remedy: string, fixed?: string): Diagnosis => ({
    ...named,
    verdict: 'failed',
    where: found.where,
    found: what,
    remedy,
    ...(fixed !== undefined && fixIn(found.source, { values: valuesFor(fixed) })),
  });
  const unquoted = given.replace(/^(["'])(.*)\1$/, '$2').trim();
  const problem = urlProblem(unquoted, 'base');
  if (problem !== undefined) {
    const what = `it is no address that the client can use: ${problem}`;
    return {
      root_url: undefined,
      problem: wrong(what, howToChange(found, 'the address of the gateway, such as https://gateway.example.com')),
    };
  }
  const root_url = plain(unquoted.replace(API_PATH, ''));
  if (unquoted !== given) {
    const what = 'it stands in quotes, which become part of the address: the client takes it for none';
    return { root_url, problem: wrong(what, howToChange(found, root_url), root_url) };
  }
  if (API_PATH.test(given)) {
    const ends = API_PATH.exec(given)![0].replace(/\/+$/, '');
    const what = `it ends in ${ends}: this client adds /v1 itself, so its requests go to ${ends}/v1/messages`;
    return { root_url, problem: wrong(what, howToChange(found, root_url), root_url) };
  }
  if (given.startsWith('http:') && !isLoopbackUrl(given)) {
    const remedy = howToChange(found, given.replace(/^http:/, 'https:'));
    const found_it = 'it is http, so everybody on the way can read the token and the prompts';
    return { root_url, problem: { ...named, verdict: 'warning', where: found.where, found: found_it, remedy } };
  }
  return { root_url };
}

function unused(other: Found, found: Found): Diagnosis {
  return {
    ...NAMED,
    verdict: 'warning',
    where: other.where,
    found: `it is not used: ${found.where} says another address, and wins`,
    remedy: `keep one of the two: ${howToChange(other)}, or ${howToChange(found)}`,
  };
}
