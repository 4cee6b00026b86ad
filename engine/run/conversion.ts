import type { ConvertedHead, StageContext } from '../contract/stage.ts';
import type { CompiledStage } from './compiled.ts';

type MakeConverter = Parameters<StageContext['convertResponse']>[0];

/** How a stage has the response of a request converted. */
export interface Conversion {
  readonly stage: CompiledStage | undefined;
  readonly make: MakeConverter;
}

/** A request whose response may be converted. */
interface Convertible {
  stage: CompiledStage | undefined;
  readonly conversion: Conversion | undefined;
}

/** Has the converter made, if a stage wants one. What goes wrong is that stage's. */
export function makeConverter(ctx: Convertible, head: ConvertedHead): ReturnType<MakeConverter> {
  if (ctx.conversion === undefined) return undefined;
  ctx.stage = ctx.conversion.stage;
  const converter = ctx.conversion.make(head);
  ctx.stage = undefined;
  return converter;
}
