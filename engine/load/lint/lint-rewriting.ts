import { quote } from '../../source/describe.ts';
import type { Findings } from '../../source/findings.ts';
import type { LinkedPipeline } from '../flow.ts';

/**
 * Warns about stages that replace texts in answers: where no answer of an upstream passes, and where answers pass as they are
 * when the stage fails.
 * @param relays whether a stage of the pipeline asks an upstream
 */
export function lintRewriting({ stages }: LinkedPipeline, relays: boolean, findings: Findings): void {
  for (const { entry, mark } of stages) {
    if (!entry.definition.needs.includes('rewrite-response')) continue;
    const id = quote(entry.id);
    if (!relays) {
      const message = `${id} replaces texts in answers of upstreams, and this pipeline asks none`;
      findings.report('W7160', mark, message, { help: 'remove it, or move it to a pipeline with `forward`' });
    } else if (!entry.fail_closed && entry.mode === 'enforce') {
      findings.report('W7161', mark, `an answer goes out as it is when ${id} fails`, {
        help: 'remove `fail_closed: false`: such an answer is then refused',
      });
    }
  }
}
