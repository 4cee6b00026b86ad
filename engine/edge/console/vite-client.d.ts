interface ImportMeta {
  readonly env: { readonly DEV: boolean };
}
