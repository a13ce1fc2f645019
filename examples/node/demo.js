// One route for each algorithm. The settings come from the environment; see README.md.

import express from 'express';
import { byHeader, byIp, connect, rateLimit } from './redis-rl.js';

const {
  PORT = '3000',
  REDIS_URL = 'redis://127.0.0.1:6379',
  ON_ERROR = 'open',
  LEGACY_HEADERS = '',
  HASH_TAG = '',
  TIMEOUT_MS = '100',
  MAX_WAIT_MS = '10000',
  TRUSTED_PROXIES = '0',
} = process.env;

const redis = await connect({ url: REDIS_URL, timeout: Number(TIMEOUT_MS) });
const ip = byIp(Number(TRUSTED_PROXIES));
const user = byHeader('X-User');

const app = express();
app.disable('x-powered-by');

/** What a client may choose is checked here: what Redis refuses would count as Redis being away. */
function cost(req) {
  const told = Number(req.query.cost);
  return Number.isSafeInteger(told) && told >= 1 ? told : 1;
}

let queueServed = 0;

/** @param {import('./redis-rl.js').Limit[]} limits */
function route(path, ...limits) {
  const options = {
    limits,
    onError: /** @type {'open' | 'closed'} */ (ON_ERROR),
    legacyHeaders: LEGACY_HEADERS === '1',
    hashTag: HASH_TAG,
    maxWait: Number(MAX_WAIT_MS),
  };
  app.get(path, rateLimit(redis, options), (req, res) => {
    if (path === '/queue') queueServed++;
    res.type('text/plain').send('ok\n');
  });
}

route('/free');
route('/default', { name: 'default', algorithm: 'SLIDING 60 100', key: ip });
route('/tiers', { name: 'tiers', algorithm: 'SLIDING 10 3 60 5', key: ip });
route('/login', { name: 'login', algorithm: 'FIXED 3600 3', key: byHeader('X-Api-Key') });
route('/upload', { name: 'upload', algorithm: 'TOKEN 5 2', key: ip, cost });
route('/feed', { name: 'feed', algorithm: 'COUNTER 10 10', key: user });
route('/queue', { name: 'queue', algorithm: 'LEAKY 3 2', key: ip });
route(
  '/layers',
  { name: 'ip', algorithm: 'SLIDING 60 100', key: ip },
  { name: 'user', algorithm: 'TOKEN 5 1', key: user },
  { name: 'endpoint', algorithm: 'FIXED 3600 1000', key: () => 'all' },
);

// For the tests: how many requests the queue has let through to the application.
app.get('/served', (req, res) => {
  res.type('text/plain').send(`${queueServed}\n`);
});

const server = app.listen(Number(PORT), '127.0.0.1');
process.once('SIGTERM', () => {
  server.close();
  server.closeAllConnections();
  redis.close();
});
