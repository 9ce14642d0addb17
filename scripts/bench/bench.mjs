#!/usr/bin/env node
// Measures the flash sale from end to end against redis-benchmark running the same script: one server (release
// build, login and limits on) on MariaDB, Redis and Kafka, loaded by wrk; with Redis's log off and at `always`.
//
//   make bench          COUNT=60000 buyers a run unless said
//
// A figure counts only if afterwards sold = buyers = live orders = rows. Everything that is started is private to the
// run, and is stopped and removed at its end. Needs wrk, and what `make test` needs.

import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, '..', '..');
const program = process.env.PROGRAM ?? join(root, 'target', 'release', 'lifemate');
const count = Number(process.env.COUNT ?? 60_000);
const connections = [50, 500];
const folder = mkdtempSync(join(tmpdir(), 'lm-bench-'));
const children = new Set();

const say = (text) => console.error(`bench: ${text}`);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const freePort = () => 10_000 + 2 * Math.floor(Math.random() * 2_500);

function launch(name, command, args, env = {}) {
  const log = openSync(join(folder, `${name}.log`), 'a');
  const child = spawn(command, args, { env: { ...process.env, ...env }, stdio: ['ignore', log, log] });
  children.add(child);
  child.on('exit', () => children.delete(child));
  return child;
}

async function end(child) {
  if (!children.has(child)) return;
  child.kill('SIGTERM');
  await until('the end of a process', () => !children.has(child), 20_000);
}

async function until(what, look, limit = 60_000) {
  const deadline = Date.now() + limit;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > deadline) throw new Error(`not within ${limit} ms: ${what} (logs in ${folder})`);
    await sleep(50);
  }
}

const run = (command, args, env = {}) =>
  execFileSync(command, args, { env: { ...process.env, ...env }, encoding: 'utf8', maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'pipe'] });

// ---- stores ---------------------------------------------------------------------------------------------------

function startServices() {
  const text = run(join(root, 'scripts', 'services'), ['start', join(folder, 'services')]);
  return Object.fromEntries([...text.matchAll(/export (\w+)=(\S+)/g)].map(([, name, value]) => [name, value]));
}

async function startRedis(log) {
  const port = freePort();
  const append = log === 'off' ? ['--appendonly', 'no'] : ['--appendonly', 'yes', '--appendfsync', log];
  const process = launch('redis', 'redis-server', ['--port', `${port}`, '--bind', '127.0.0.1', '--save', '',
    '--maxmemory-policy', 'noeviction', '--dir', mkdtempSync(join(folder, 'redis-')), ...append]);
  const cli = (...args) => run('redis-cli', ['-p', `${port}`, ...args]).trim();
  await until('Redis', () => { try { return cli('ping') === 'PONG'; } catch { return false; } });
  return { process, port, cli, url: `redis://127.0.0.1:${port}` };
}

function sql(services, statement) {
  const port = services.LM_TEST_MARIADB_URL.split(':').pop();
  const base = ['--no-defaults', '--protocol=tcp', '--host=127.0.0.1', `--port=${port}`, '--user=root', '--batch', '--skip-column-names'];
  return run('mariadb', [...base, `--execute=${statement}`]).trim();
}

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

async function api(base, token, query, variables) {
  const response = await fetch(`${base}/graphql`, { method: 'POST', body: JSON.stringify({ query, variables }),
    headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` } });
  const answer = await response.json();
  if (answer.errors) throw new Error(`${query}: ${JSON.stringify(answer.errors)}`);
  return answer.data;
}

async function openSale(base, token, total) {
  const { shopTypes } = await api(base, token, '{ shopTypes { id } }');
  const shop = await api(base, token, 'mutation($input: CreateShopInput!) { createShop(input: $input) { shop { id } } }',
    { input: { name: 'Bench', typeId: shopTypes[0].id, location: { latitude: 21.03, longitude: 105.85 } } });
  const input = {
    shopId: shop.createShop.shop.id, kind: 'SECKILL', title: 'Bench',
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

async function measure(services, log) {
  const redis = await startRedis(log);
  const database = `bench_${log}`;
  sql(services, `CREATE DATABASE ${database} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin`);
  const port = freePort();
  const base = `http://127.0.0.1:${port}`;
  const env = {
    LIFEMATE_DATABASE_URL: `${services.LM_TEST_MARIADB_URL}/${database}`, LIFEMATE_REDIS_URL: redis.url,
    LIFEMATE_KAFKA_BROKERS: services.LM_TEST_KAFKA_BROKERS, LIFEMATE_DEPLOYMENT: database.replace('_', '-'),
    LIFEMATE_HTTP_ADDR: `127.0.0.1:${port}`, LIFEMATE_DATA_DIR: folder, LIFEMATE_LOG: 'warn',
    LIFEMATE_UNSAFE_REDIS: `${log === 'off'}`, LIFEMATE_PAY_WINDOW_SECS: '3600',
    LIFEMATE_ID_SECRET: 'only-for-this-benchmark-id-secret', LIFEMATE_WEBHOOK_SECRET: 'only-for-this-benchmark-webhooks',
  };
  run(program, ['migrate', 'up'], env);
  run(program, ['seed'], env);
  const sessions = join(folder, `${database}.jsonl`);
  run(program, ['admin', 'sessions', '--count', `${count * connections.length + 1}`, '--out', sessions], env);
  const people = readFileSync(sessions, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
  const merchant = people.pop();
  run(program, ['admin', 'grant', merchant.phone, 'MERCHANT'], env);
  const tokens = join(folder, `${database}.tokens`);
  writeFileSync(tokens, `${people.map((person) => person.token).join('\n')}\n`);

  say(`redis-benchmark, log ${log}`);
  const anchored = anchor(redis);
  const server = launch(`server-${log}`, program, ['serve', '--no-workers'], env);
  await until('the server', async () => (await fetch(`${base}/health/ready`).catch(() => null))?.ok);
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

  const drained = await drain(services, redis, env, database, sales);
  await end(server);
  await end(redis.process);
  return { rows, drained };
}

/** Starts a worker on what the load left behind, and watches the rows come. */
async function drain(services, redis, env, database, sales) {
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

// ---- all of it ------------------------------------------------------------------------------------------------

const whole = (value) => Math.round(value).toLocaleString('en-US');
const table = [];

function cleanUp() {
  for (const child of children) child.kill('SIGKILL');
  run(join(root, 'scripts', 'services'), ['stop', join(folder, 'services')]);
}

for (const signal of ['SIGINT', 'SIGTERM']) {
  process.on(signal, () => {
    cleanUp();
    process.exit(1);
  });
}

try {
  const services = startServices();
  for (const log of ['off', 'always']) {
    const { rows, drained } = await measure(services, log);
    for (const row of rows) {
      table.push(`| ${row.log} | ${row.clients} | ${whole(row.accepted)} | ${whole(row.anchored)} | ${(row.accepted / row.anchored).toFixed(2)} `
        + `| ${row.p50.toFixed(1)} | ${row.p99.toFixed(1)} | ${row.errors} | ${whole(drained)} |`);
    }
  }
  console.log(`${count.toLocaleString('en-US')} buyers a run, ${cpus().length} cores (${cpus()[0].model.trim()}) shared by wrk, the server and the stores; ${new Date().toISOString().slice(0, 10)}`);
  console.log('| Redis log | connections | accepted/s | redis-benchmark/s | ratio | p50 ms | p99 ms | errors | rows/s draining |');
  console.log('| --- | --- | --- | --- | --- | --- | --- | --- | --- |');
  console.log(table.join('\n'));
  cleanUp();
  rmSync(folder, { recursive: true, force: true });
} catch (error) {
  process.exitCode = 1;
  console.error(`${error.message}\n(logs are in ${folder})`);
  cleanUp();
}
