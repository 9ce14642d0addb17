// The flash sale from end to end against redis-benchmark running the same script: one server on MariaDB, Redis and
// Kafka, loaded by wrk; with Redis's log off and at `always`. A figure counts only if afterwards sold = buyers = live
// orders = rows.

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { api, createShop, end, folder, furnish, here, launch, root, run, say, serve, sleep, sql, startRedis, until } from './stage.mjs';

export const count = Number(process.env.COUNT ?? 60_000);
const connections = [50, 500];
const whole = (value) => Math.round(value).toLocaleString('en-US');

// ---- the anchor: Redis alone, the same script, one buyer a call, not pipelined -----------------------------------

function anchor(redis) {
  const text = (name) => readFileSync(join(root, 'lua', `${name}.lua`), 'utf8');
  const sha = redis.cli('script', 'load', `-- anchor\n${text('sale_head')}${text('reserve')}`);
  const key = (part) => `anchor:{v:1}:${part}`;
  redis.cli('del', ...['stock', 'buyers', 'orders', 'outbox', 'attempts', 'dead'].map(key));
  const total = 100_000_000;
  const meta = { begin_ms: 1, end_ms: 9_999_999_999_999, total, limit: 1, price: 990, currency: 'CNY', max_attempts: 3,
    epoch: 1, version: 0, paused: 0, waiting: 0, taken: 0 };
  redis.cli('hset', key('meta'), ...Object.entries(meta).flat().map(String));
  redis.cli('set', key('stock'), `${total}`);
  redis.cli('hset', key('outbox'), 'epoch', '1');
  redis.cli('hset', key('attempts'), 'epoch', '1');
  const keys = ['meta', 'stock', 'buyers', 'orders', 'outbox', 'attempts', 'dead', 'recovery'].map(key);
  const buyer = ['9__rand_int__', '__rand_int__', 'bench-1', '0123456789abcdef0123456789abcdef', '0'];
  const csv = run('redis-benchmark', ['-p', `${redis.port}`, '-c', '50', '-n', `${count}`, '-r', '2000000000', '--csv',
    'evalsha', sha, `${keys.length}`, ...keys, '1', '1', ...buyer]);
  const taken = Number(redis.cli('hget', key('meta'), 'taken'));
  if (taken < count * 0.999) throw new Error(`the anchor took only ${taken} of ${count} units`);
  redis.cli('del', ...keys);
  return Number(csv.trim().split('\n').pop().split(',')[1].replaceAll('"', ''));
}

// ---- the product ----------------------------------------------------------------------------------------------

async function openSale(base, token, total) {
  const shop = await createShop(base, token, 'Bench');
  const input = {
    shopId: shop.id, kind: 'SECKILL', title: 'Bench',
    payPrice: '9.90', value: '99.00', currencyCode: 'CNY',
    sale: { total, perUserLimit: 1, startsAt: new Date(Date.now() - 60_000).toISOString(), endsAt: new Date(Date.now() + 3_600_000).toISOString() },
  };
  const voucher = await api(base, token, 'mutation($input: CreateVoucherInput!) { createVoucher(input: $input) { voucher { id } } }', { input });
  const { id } = voucher.createVoucher.voucher;
  await api(base, token, 'mutation($id: ID!) { publishVoucher(input: { voucherId: $id }) { voucher { id } } }', { id });
  const number = Buffer.from(id, 'base64url').toString().split(':')[1];
  return { id, number };
}

function load(base, sale, tokens, from, clients) {
  const out = run('wrk', ['-t1', `-c${clients}`, '-d300s', '--timeout', '10s', '-s', join(here, 'seckill.lua'), base],
    { BENCH_TOKENS: tokens, BENCH_FROM: `${from}`, BENCH_COUNT: `${count}`, BENCH_VOUCHER: sale.id });
  return JSON.parse(out.match(/^RESULT (.*)$/m)[1]);
}

async function measure(program, services, log) {
  const redis = await startRedis(log);
  const { database, env, people, merchants: [merchant] } = furnish(program, services, redis, {
    name: log, people: count * connections.length, merchants: 1,
    settings: { LIFEMATE_UNSAFE_REDIS: `${log === 'off'}`, LIFEMATE_PAY_WINDOW_SECS: '3600' },
  });
  const tokens = join(folder, `${database}.tokens`);
  writeFileSync(tokens, `${people.map((person) => person.token).join('\n')}\n`);

  say(`redis-benchmark, log ${log}`);
  const anchored = anchor(redis);
  const { base, process: server } = await serve(`server-${log}`, program, ['serve', '--no-workers'], env);
  const rows = [];
  const sales = [];
  for (const [index, clients] of connections.entries()) {
    say(`${count} buyers over ${clients} connections, log ${log}`);
    const sale = await openSale(base, merchant.token, count * 2);
    const result = load(base, sale, tokens, 1 + index * count, clients);
    const taken = () => Number(redis.cli('hget', `${env.LIFEMATE_DEPLOYMENT}:{v:${sale.number}}:meta`, 'taken'));
    rows.push({ log, clients, anchored, accepted: taken() / result.seconds, ...result });
    // What was under way when the load ended arrives still.
    await sleep(1_000);
    sale.taken = taken();
    sales.push(sale);
  }

  const drained = await drain({ program, services, redis, env, database }, sales);
  await end(server);
  await end(redis.process);
  return { rows, drained };
}

/** Starts a worker on what the load left behind, and watches the rows come. */
async function drain({ program, services, redis, env, database }, sales) {
  const count = () => Number(sql(services, `SELECT COUNT(*) FROM ${database}.orders`));
  const wanted = sales.reduce((sum, sale) => sum + sale.taken, 0);
  say(`${wanted} rows to write`);
  const worker = launch('worker', program, ['work'], env);
  let first = 0;
  await until('all rows', () => {
    const rows = count();
    if (rows > 0 && !first) first = Date.now();
    return rows >= wanted;
  }, 300_000);
  const seconds = (Date.now() - first) / 1000;
  for (const { number, taken } of sales) {
    const key = (part) => `${env.LIFEMATE_DEPLOYMENT}:{v:${number}}:${part}`;
    await until('an empty outbox', () => redis.cli('hlen', key('outbox')) === '1');
    const facts = {
      taken, sold: Number(sql(services, `SELECT sold FROM ${database}.sales WHERE voucher_id = ${number}`)),
      rows: Number(sql(services, `SELECT COUNT(*) FROM ${database}.orders WHERE voucher_id = ${number} AND active = 1`)),
      buyers: Number(redis.cli('hlen', key('buyers'))), orders: Number(redis.cli('hlen', key('orders'))),
    };
    if (new Set(Object.values(facts)).size !== 1) throw new Error(`no figure counts: ${JSON.stringify(facts)}`);
  }
  run(program, ['verify'], env);
  await end(worker);
  return wanted / seconds;
}

/** The lines of the table. */
export async function measureSale(program, services) {
  const table = [
    '| Redis log | connections | accepted/s | redis-benchmark/s | ratio | p50 ms | p99 ms | errors | rows/s draining |',
    '| --- | --- | --- | --- | --- | --- | --- | --- | --- |',
  ];
  for (const log of ['off', 'always']) {
    const { rows, drained } = await measure(program, services, log);
    for (const row of rows) {
      table.push(`| ${row.log} | ${row.clients} | ${whole(row.accepted)} | ${whole(row.anchored)} | ${(row.accepted / row.anchored).toFixed(2)} `
        + `| ${row.p50.toFixed(1)} | ${row.p99.toFixed(1)} | ${row.errors} | ${whole(drained)} |`);
    }
  }
  return table;
}
