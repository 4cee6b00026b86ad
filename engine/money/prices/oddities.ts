import type { EffectivePrice, Log, PriceNote, Provenance } from '../../contract/services.ts';
import type { StageContext } from '../../contract/stage.ts';
import { createOnceLog } from '../../kit/once-log.ts';
import type { UsageReading } from '../../protocols/usage/reading.ts';
import { type Charged, clampedNumbers } from './charge.ts';
import { unpricedTools } from './prices.ts';

type OddContext = Pick<StageContext<'request.id' | 'request.model' | 'route.upstream', never, never>, 'get' | 'trace'>;

/**
 * Makes what logs the odd things about a charge and says what its provenance notes of them; what has no price is told once for each
 * model and tool.
 */
export function createOddities(log: Log) {
  const tellOnce = createOnceLog(log);
  return (
    ctx: OddContext,
    reading: UsageReading,
    charged: Charged,
    price: EffectivePrice,
  ): Readonly<Record<string, Provenance | PriceNote>> => {
    const { usage, impossible, unpriced_serving, unpriced_audio } = charged;
    const request = { request_id: ctx.get('request.id'), trace_id: ctx.trace.trace_id };
    const fields = { ...request, upstream: ctx.get('route.upstream') };
    const model = ctx.get('request.model');
    if (reading.unusable)
      log.warn(fields, 'the upstream reported usage that cannot be right; it was left out of the bill');
    if (impossible.length > 0) {
      const what = 'the upstream reported more usage than is possible; the most that is possible was booked';
      log.warn({ ...fields, impossible }, what);
    }
    if (unpriced_serving) {
      const { service_tier, speed, inference_geo } = reading.served ?? {};
      const how = { model, service_tier, speed, inference_geo };
      tellOnce(how, 'an answer was served in a way that has no price; it was charged at the most expensive there is');
    }
    if (unpriced_audio) {
      const what =
        'audio was used that has no price of its own (audio_input, audio_output); it was charged at a multiple of the price of text';
      tellOnce({ model }, what);
    }
    const unknown_model = price.source === 'prices.unknown_model';
    if (unknown_model) tellOnce({ model }, 'a model without a price was charged by prices.unknown_model');
    const unpriced = usage.server_tools === undefined ? [] : unpricedTools(price, usage);
    for (const tool of unpriced) tellOnce({ model, tool }, 'a tool without a price was used; it cost nothing');
    return {
      ...clampedNumbers(impossible),
      ...(unpriced_serving && { price: 'unknown_tier' as const }),
      ...(unpriced_audio && { price: 'unknown_audio' as const }),
      ...(unknown_model && { price: 'unknown_model' as const }),
      ...(unpriced.length > 0 && { server_tools: 'unpriced' as const }),
    };
  };
}
