/** Variables that decide how programs reach others, and whom they trust. */
export const NETWORK_VARIABLES = [
  ...['HTTPS_PROXY', 'HTTP_PROXY', 'ALL_PROXY', 'NO_PROXY'].flatMap((name) => [name, name.toLowerCase()]),
  'NODE_EXTRA_CA_CERTS',
  'SSL_CERT_FILE',
  'NODE_TLS_REJECT_UNAUTHORIZED',
] as const;
