import { existsSync, statSync } from 'node:fs';
import type { StartError } from '../../contract/start-error.ts';
import { effectiveRules } from '../../explain/rules.ts';
import { loadToRun } from '../../gateway/load-configuration.ts';
import { didYouMean, listed } from '../../kit/text/suggest.ts';
import type { CommandContext } from '../context.ts';
import { usageError } from '../exit-codes.ts';
import { describeDryRun } from './describe-dry-run.ts';
import { describeRules } from './describe-rules.ts';
import { explainPastRequest } from './explain-past-request.ts';
import { describeMatrix, describePipeline, pipelineData } from './explain-pipeline.ts';
import { type Caller, explainRequestFile } from './explain-request.ts';

/** Something explained: lines for a person, a value for a program. */
export interface Explanation {
  lines(line_width: number): readonly string[];
  readonly data: unknown;
}

/** Words that ask about a configuration as a whole. */
export const CONFIGURATION_WORDS = ['pipelines', 'rules'];

/** What `explain` knows beside a configuration, in few words. */
export const WORDS_KNOWN =
  'it knows codes (C2004), stages, facts, operators, errors, and keys of configuration files (spend_limits.rules)';

/** Whether a word names something a request can be read from; a directory may well be called like a stage. */
export function isFile(word: string): boolean {
  return existsSync(word) && !statSync(word).isDirectory();
}

const REQUEST_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/**
 * What a configuration does: `pipelines`, `rules`, the name of a pipeline, a file with a request, or the id of a past
 * request. Raises ConfigurationError, StartError.
 * @param reference words that may have been meant as well.
 */
export async function explainConfiguration(
  context: CommandContext,
  word: string,
  given: Caller & { readonly config: string },
  reference: readonly string[],
): Promise<Explanation> {
  const stages = await context.stages();
  const { config, loaded } = await loadToRun(given.config, { stages, env: context.env, environment: 'ignored' });
  const cwd = process.cwd();
  if (word === 'pipelines') {
    const { pipelines } = loaded;
    return {
      lines: (width) => describeMatrix(pipelines, width),
      data: pipelines.map((pipeline) => pipelineData(pipeline, cwd)),
    };
  }
  if (word === 'rules') {
    const rules = effectiveRules(loaded, config, cwd);
    return { lines: (width) => describeRules(rules, width), data: rules };
  }
  const pipeline = loaded.pipelines.find(({ name }) => name === word);
  if (pipeline !== undefined) {
    return { lines: (width) => describePipeline(pipeline, width, cwd), data: pipelineData(pipeline, cwd) };
  }
  if (!REQUEST_ID.test(word) && !isFile(word))
    throw unknownWord(
      word,
      loaded.pipelines.map(({ name }) => name),
      reference,
    );
  const usable = { loaded, config };
  const run = isFile(word)
    ? await explainRequestFile(context, usable, word, given)
    : await explainPastRequest(context, usable, word);
  return { lines: (width) => describeDryRun(run, width, config.spend_limits?.time_zone), data: run };
}

/** Which word was probably meant: the last part of a fact is what comes to mind first (`agent` for `request.agent`). */
export function wordMeant(word: string, known: readonly string[], otherwise: string): string {
  const whole = known.find((each) => each.endsWith(`.${word}`));
  return whole === undefined ? didYouMean(word, known, otherwise) : `did you mean \`${whole}\`?`;
}

function unknownWord(word: string, pipelines: readonly string[], reference: readonly string[]): StartError {
  const known = [...CONFIGURATION_WORDS, ...pipelines, ...reference];
  const help = wordMeant(word, known, `${WORDS_KNOWN}; the pipelines are ${listed(pipelines)}`);
  return usageError(
    `there is no pipeline, file or word of the reference called ${word}; ${help} (appscli explain --help shows how)`,
  );
}
