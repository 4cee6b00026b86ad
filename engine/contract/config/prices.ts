/** Prices in USD per million tokens. */
export interface TokenPrices {
  readonly input: number;
  readonly output: number;
  readonly cache_read?: number;
  readonly cache_write_5m?: number;
  readonly cache_write_1h?: number;
}

/** What a way of being served costs: token prices for inputs of every length where `input` is there, all times `multiplier`. */
export interface ServedPricingConfig extends Partial<TokenPrices> {
  readonly multiplier?: number;
}

/** Everything a model can cost; tools that the upstream runs in USD per 1,000 uses. */
export interface PricingConfig extends TokenPrices {
  readonly long_context?: TokenPrices & { readonly above_input_tokens: number };
  /** By the names that `service_tier`, `speed` and `inference_geo` have on the wire. */
  readonly service_tiers?: Readonly<Record<string, ServedPricingConfig>>;
  readonly speeds?: Readonly<Record<string, ServedPricingConfig>>;
  readonly inference_geos?: Readonly<Record<string, ServedPricingConfig>>;
  readonly server_tools?: Readonly<Record<string, number>>;
}

/** One entry of `prices.rows`: the price of some models, at one upstream or all, for a time. The first that matches holds. */
export interface PriceRowConfig {
  /** Globs over model ids. */
  readonly models: readonly string[];
  readonly upstream?: string;
  /** Dates (YYYY-MM-DD, midnight UTC): the first day it holds, and the first it no longer does. */
  readonly from?: string;
  readonly until?: string;
  /** Absent: the model's own pricing. */
  readonly pricing?: PricingConfig;
  /** Contract multiplier on all of it. */
  readonly multiplier: number;
}

/** The `prices` section. */
export interface PricesConfig {
  /** Price of a model that has none. */
  readonly unknown_model?: PricingConfig;
  readonly rows: readonly PriceRowConfig[];
}
