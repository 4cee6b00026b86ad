/** Prices of audio, which no provider charges as text. */
import type { AudioTokens, TokenRates } from '../../contract/services.ts';

/** Prices of audio that are left out, as multiples of the price of text: those of the best-known models that hear and speak. */
const AUDIO_RATIOS = { input: 16, output: 8 } as const;

/** Pico-USD per token of audio, in and out. */
export function audioPico({ input, output, audio_input, audio_output }: TokenRates['pico']): AudioTokens {
  return {
    input: audio_input ?? input * AUDIO_RATIOS.input,
    output: audio_output ?? output * AUDIO_RATIOS.output,
  };
}

/** Whether some tokens of audio have no price of their own. */
export function isAudioUnpriced({ audio_input, audio_output }: TokenRates['pico'], audio: AudioTokens): boolean {
  return (audio.input > 0 && audio_input === undefined) || (audio.output > 0 && audio_output === undefined);
}
