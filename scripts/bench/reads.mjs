// Cached reads: the query of a shop against the same query answered from a constant, in alternating rounds; how much each
// tier of the cache answers, and how fast; and how long a change at one server takes to be seen at another.

import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { api, createShop, end, folder, freePort, furnish, here, launch, metrics, run, say, serve, sleep, startRedis, until } from './stage.mjs';

const ROUNDS = 7;
const SECONDS = 4;
const CONNECTIONS = 50;
/** How long both servers are read for the table of the tiers: three lives of a copy in the process. */
const TIER_SECONDS = 15;
/** Fewer than a merchant may write in a minute. */
const CHANGES = 100;

const whole = (value) => Math.round(value).toLocaleString('en-US');
const quantile = (values, share) => [...values].sort((a, b) => a - b)[Math.floor(share * (values.length - 1))];
const median = (values) => quantile(values, 0.5);

/** Loads a server with wrk; what wrk says at the end. */
function load(base, stage, seconds, connections = CONNECTIONS) {
  const wrk = spawn('wrk', ['-t1', `-c${connections}`, `-d${seconds}s`, '--timeout', '10s', '-s', join(here, 'shop.lua'), base],
    { env: { ...process.env, BENCH_SHOPS: stage.shopFile, BENCH_TOKENS: stage.tokenFile }, stdio: ['ignore', 'pipe', 'inherit'] });
  return new Promise((resolve, reject) => {
    let out = '';
    wrk.stdout.on('data', (chunk) => { out += chunk; });
    wrk.on('close', () => {
      const result = out.match(/^RESULT (.*)$/m);
      if (!result) return reject(new Error(`wrk said: ${out}`));
      const told = JSON.parse(result[1]);
      return told.errors ? reject(new Error(`${told.errors} errors at ${base}`)) : resolve(told);
    });
  });
}

/** All shops of the demo data, by pages. */
async function allShops(base, token) {
  const ids = [];
  for (let after = null; ;) {
    const { shops } = await api(base, token, 'query($after: String) { shops(first: 50, after: $after) { edges { node { id } } pageInfo { hasNextPage endCursor } } }', { after });
    ids.push(...shops.edges.map((edge) => edge.node.id));
    if (!shops.pageInfo.hasNextPage) return ids;
    after = shops.pageInfo.endCursor;
  }
}

async function assertAllWell(base) {
  const value = await metrics(base);
  const [all, well] = [value('lifemate_graphql_operations_total'), value('lifemate_graphql_operations_total', 'code="OK"')];
  if (all > 0 && all === well) return;
  const said = (await (await fetch(`${base}/metrics`)).text()).split('\n')
    .filter((line) => /^lifemate_(graphql_operations|cache_try_later|cache_requests)_total/.test(line));
  throw new Error(`no figure counts: ${all - well} of ${all} operations failed at ${base}\n${said.join('\n')}`);
}

async function startStock(program) {
  const port = freePort();
  const base = `http://127.0.0.1:${port}`;
  const process = launch('stock', program, [], { BENCH_ADDR: `127.0.0.1:${port}` });
  const question = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"query":"{ shop(id: 1) { name } }"}' };
  const answer = await until('the stock server', () => fetch(`${base}/graphql`, question).catch(() => null));
  if (!(await answer.json()).data.shop.name) throw new Error('the stock server does not answer');
  return { base, process };
}

/** Requests a second of each, medians of alternating rounds. */
async function compare(contenders, stage) {
  const rates = contenders.map(() => []);
  for (let round = 0; round <= ROUNDS; round += 1) {
    for (const [index, { name, base }] of contenders.entries()) {
      const { requests, seconds } = await load(base, stage, round === 0 ? 2 : SECONDS);
      say(`${round === 0 ? 'warming' : `round ${round}`}, ${name}: ${whole(requests / seconds)}/s`);
      if (round > 0) rates[index].push(requests / seconds);
    }
  }
  const [cached, ...others] = rates.map(median);
  const ratio = (rate, index) => (index === 0 ? '' : (cached / rate).toFixed(2));
  return [
    `| \`shop\`, 11 fields, ${CONNECTIONS} connections | req/s | cached / this |`,
    '| --- | --- | --- |',
    ...[cached, ...others].map((rate, index) => `| ${contenders[index].name} | ${whole(rate)} | ${ratio(rate, index)} |`),
  ];
}

/** A quantile of a histogram, by the growth of its buckets; in milliseconds. */
function fromBuckets(before, after, tier, share) {
  const bounds = [0.0001, 0.0002, 0.0003, 0.0005, 0.00075, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1, 3];
  const grown = (le) => sum(after, before, 'lifemate_cache_read_seconds_bucket', `tier="${tier}"`, 'kind="shop"', `le="${le}"`);
  const wanted = share * grown('+Inf');
  let [low, below] = [0, 0];
  for (const bound of bounds) {
    const count = grown(bound);
    if (count >= wanted) return 1_000 * (low + (bound - low) * ((wanted - below) / (count - below || 1)));
    [low, below] = [bound, count];
  }
  return 1_000 * low;
}

function sum(after, before, name, ...labels) {
  return after.reduce((total, value, index) => total + value(name, ...labels) - before[index](name, ...labels), 0);
}

/** Reads every shop at both servers while a merchant goes on changing some; what each tier answered. */
async function tiers(servers, stage, localNanos) {
  const before = await Promise.all(servers.map(({ base }) => metrics(base)));
  let isOver = false;
  const changing = async () => {
    for (let number = 0; !isOver; number += 1) {
      await rename(servers[0].base, stage.merchants[1], stage.changing[number % stage.changing.length], `Name ${number}`);
      await sleep(1_000);
    }
  };
  const changes = changing();
  // It is waited for below; until then its failure must not end the program past its cleaning up.
  changes.catch(() => {});
  await Promise.all(servers.map(({ base }) => load(base, stage, TIER_SECONDS, CONNECTIONS / 2)));
  isOver = true;
  await changes;
  const after = await Promise.all(servers.map(({ base }) => metrics(base)));
  const looks = (tier, ...results) => results
    .reduce((total, result) => total + sum(after, before, 'lifemate_cache_requests_total', 'kind="shop"', `tier="${tier}"`, `result="${result}"`), 0);
  const row = (tier, hits, misses, times) => `| ${tier} | ${whole(hits + misses)} | ${(100 * hits / (hits + misses || 1)).toFixed(2)} % | ${times} |`;
  const times = (tier) => [0.5, 0.99].map((share) => `${fromBuckets(before, after, tier, share).toFixed(2)} ms`).join(' | ');
  return [
    '| tier | looks | answered there | median | p99 |',
    '| --- | --- | --- | --- | --- |',
    row('in the process', looks('local', 'hit'), looks('local', 'miss'), `${(localNanos / 1_000).toFixed(2)} µs | `),
    row('Redis', looks('redis', 'hit', 'stale'), looks('redis', 'miss', 'away'), times('redis')),
    row('database', looks('database', 'load', 'bulkhead'), looks('database', 'error'), times('database')),
  ];
}

async function rename(base, merchant, shop, name) {
  const input = { shopId: shop.id, name, typeId: shop.typeId, location: { latitude: 21.03, longitude: 105.85 } };
  const { updateShop } = await api(base, merchant.token, 'mutation($input: UpdateShopInput!) { updateShop(input: $input) { shop { version } } }', { input });
  return Number(updateShop.shop.version);
}

/** From the answer to a change at one server until another answers with it. */
async function invalidations([writing, reading], stage) {
  const [merchant] = stage.merchants;
  const shop = await createShop(writing.base, merchant.token, 'Bench');
  const seen = async () => {
    const { shop: found } = await api(reading.base, merchant.token, 'query($id: ID!) { shop(id: $id) { version } }', { id: shop.id });
    return Number(found.version);
  };
  const fromSending = [];
  const fromAnswer = [];
  await seen();
  for (let number = 0; number < CHANGES; number += 1) {
    const sent = performance.now();
    const version = await rename(writing.base, merchant, shop, `Name ${number}`);
    const answered = performance.now();
    while (await seen() < version);
    fromAnswer.push(performance.now() - answered);
    fromSending.push(performance.now() - sent);
  }
  const row = (name, values) => `| ${name} | ${median(values).toFixed(1)} | ${quantile(values, 0.99).toFixed(1)} |`;
  return [
    `| ${CHANGES} changes at one server, seen at another | median ms | p99 ms |`,
    '| --- | --- | --- |',
    row('from the answer to the change', fromAnswer),
    row('from sending the change', fromSending),
  ];
}

/** A hit in the process, by criterion; in nanoseconds. */
function localHit(program) {
  say('a hit in the process');
  const home = join(folder, 'criterion');
  run(program, ['--bench'], { CRITERION_HOME: home });
  return JSON.parse(readFileSync(join(home, 'cache_local_hit', 'new', 'estimates.json'), 'utf8')).median.point_estimate;
}

/** The lines of the tables. */
export async function measureReads(built, services) {
  const localNanos = localHit(built.local_tier);
  const redis = await startRedis('off');
  const { env, people, merchants } = furnish(built.lifemate, services, redis, {
    name: 'reads', people: 100, merchants: 2, settings: { LIFEMATE_UNSAFE_REDIS: 'true' },
  });
  const worker = launch('worker', built.lifemate, ['work'], env);
  const cached = await serve('cached', built.lifemate, ['serve', '--no-workers'], env);
  const constant = await serve('constant', built.constant_shop, [], env);
  const stock = await startStock(built.stock_shop);
  const stage = { merchants, shopFile: join(folder, 'shops'), tokenFile: join(folder, 'tokens'), changing: [] };
  for (let number = 0; number < 10; number += 1) stage.changing.push(await createShop(cached.base, merchants[1].token, `Bench ${number}`));
  writeFileSync(stage.shopFile, (await allShops(cached.base, merchants[0].token)).join('\n'));
  writeFileSync(stage.tokenFile, people.map((person) => person.token).join('\n'));

  const rates = await compare([
    { name: 'cached, the whole server', base: cached.base },
    { name: 'the same server over a constant', base: constant.base },
    { name: 'a stock async-graphql server over a constant', base: stock.base },
  ], stage);
  await Promise.all([cached, constant].map(({ base }) => assertAllWell(base)));
  for (const { process } of [cached, constant, stock]) await end(process);

  say('the tiers');
  redis.cli('eval', `for _, key in ipairs(redis.call('KEYS', '*:cache:shop:*')) do redis.call('DEL', key) end`, '0');
  const servers = [];
  for (const name of ['first', 'second']) servers.push(await serve(name, built.lifemate, ['serve', '--no-workers'], env));
  const tierTable = await tiers(servers, stage, localNanos);
  say('the way of a change');
  const way = await invalidations(servers, stage);
  await Promise.all(servers.map(({ base }) => assertAllWell(base)));
  for (const { process } of servers) await end(process);
  await end(worker);
  await end(redis.process);
  return [...rates, '', ...tierTable, '', ...way];
}
