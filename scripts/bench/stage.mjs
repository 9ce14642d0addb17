// What every measurement needs: processes that end with the run, stores of its own, the API, and a server's metrics.

import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const here = dirname(fileURLToPath(import.meta.url));
export const root = join(here, '..', '..');
export const folder = mkdtempSync(join(tmpdir(), 'lm-bench-'));
const children = new Set();

export const say = (text) => console.error(`bench: ${text}`);
export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
export const freePort = () => 10_000 + 2 * Math.floor(Math.random() * 2_500);

export function launch(name, command, args, env = {}) {
  const log = openSync(join(folder, `${name}.log`), 'a');
  const child = spawn(command, args, { env: { ...process.env, ...env }, stdio: ['ignore', log, log] });
  children.add(child);
  child.on('exit', () => children.delete(child));
  return child;
}

export async function end(child) {
  if (!children.has(child)) return;
  child.kill('SIGTERM');
  await until('the end of a process', () => !children.has(child), 20_000);
}

export async function until(what, look, limit = 60_000) {
  const deadline = Date.now() + limit;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > deadline) throw new Error(`not within ${limit} ms: ${what} (logs in ${folder})`);
    await sleep(50);
  }
}

export const run = (command, args, env = {}) =>
  execFileSync(command, args, { env: { ...process.env, ...env }, encoding: 'utf8', maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'pipe'] });

/** Builds what is measured; answers where each program is. */
export function programs(...benches) {
  say('building');
  const targets = ['--bin', 'lifemate', ...benches.flatMap((name) => ['--bench', name])];
  const lines = execFileSync('cargo', ['build', '--release', '--message-format=json-render-diagnostics', ...targets],
    { cwd: root, encoding: 'utf8', maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'inherit'] }).trim().split('\n');
  const built = lines.map((line) => JSON.parse(line)).filter((message) => message.executable);
  return Object.fromEntries(built.map((message) => [message.target.name, message.executable]));
}

/** Ends everything; `whole` also removes the logs. */
export function cleanUp(whole) {
  for (const child of children) child.kill('SIGKILL');
  run(join(root, 'scripts', 'services'), ['stop', join(folder, 'services')]);
  if (whole) rmSync(folder, { recursive: true, force: true });
}

// ---- stores ---------------------------------------------------------------------------------------------------

export function startServices() {
  const text = run(join(root, 'scripts', 'services'), ['start', join(folder, 'services')]);
  return Object.fromEntries([...text.matchAll(/export (\w+)=(\S+)/g)].map(([, name, value]) => [name, value]));
}

export async function startRedis(log) {
  const port = freePort();
  const append = log === 'off' ? ['--appendonly', 'no'] : ['--appendonly', 'yes', '--appendfsync', log];
  const process = launch('redis', 'redis-server', ['--port', `${port}`, '--bind', '127.0.0.1', '--save', '',
    '--maxmemory-policy', 'noeviction', '--dir', mkdtempSync(join(folder, 'redis-')), ...append]);
  const cli = (...args) => run('redis-cli', ['-p', `${port}`, ...args]).trim();
  await until('Redis', () => { try { return cli('ping') === 'PONG'; } catch { return false; } });
  return { process, port, cli, url: `redis://127.0.0.1:${port}` };
}

export function sql(services, statement) {
  const port = services.LM_TEST_MARIADB_URL.split(':').pop();
  const base = ['--no-defaults', '--protocol=tcp', '--host=127.0.0.1', `--port=${port}`, '--user=root', '--batch', '--skip-column-names'];
  return run('mariadb', [...base, `--execute=${statement}`]).trim();
}

/** A database with tables, demo data and people, some of them merchants; and the settings of servers on it. */
export function furnish(program, services, redis, { name, people, merchants, settings }) {
  const database = `bench_${name}`;
  sql(services, `CREATE DATABASE ${database} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin`);
  const env = {
    LIFEMATE_DATABASE_URL: `${services.LM_TEST_MARIADB_URL}/${database}`, LIFEMATE_REDIS_URL: redis.url,
    LIFEMATE_KAFKA_BROKERS: services.LM_TEST_KAFKA_BROKERS, LIFEMATE_DEPLOYMENT: `bench-${name}`,
    LIFEMATE_DATA_DIR: folder, LIFEMATE_LOG: 'warn', ...settings,
    LIFEMATE_ID_SECRET: 'only-for-this-benchmark-id-secret', LIFEMATE_WEBHOOK_SECRET: 'only-for-this-benchmark-webhooks',
  };
  run(program, ['migrate', 'up'], env);
  run(program, ['seed'], env);
  const sessions = join(folder, `${database}.jsonl`);
  run(program, ['admin', 'sessions', '--count', `${people + merchants}`, '--out', sessions], env);
  const all = readFileSync(sessions, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
  const trading = all.splice(people);
  for (const merchant of trading) run(program, ['admin', 'grant', merchant.phone, 'MERCHANT'], env);
  return { database, env, people: all, merchants: trading };
}

/** Starts a server and waits until it is ready. */
export async function serve(name, program, args, env) {
  const port = freePort();
  const base = `http://127.0.0.1:${port}`;
  const process = launch(name, program, args, { ...env, LIFEMATE_HTTP_ADDR: `127.0.0.1:${port}` });
  await until(`the server ${name}`, async () => (await fetch(`${base}/health/ready`).catch(() => null))?.ok);
  return { base, process };
}

// ---- the product ----------------------------------------------------------------------------------------------

export async function api(base, token, query, variables) {
  const response = await fetch(`${base}/graphql`, { method: 'POST', body: JSON.stringify({ query, variables }),
    headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` } });
  const answer = await response.json();
  if (answer.errors) throw new Error(`${query}: ${JSON.stringify(answer.errors)}`);
  return answer.data;
}

export async function createShop(base, token, name) {
  const { shopTypes } = await api(base, token, '{ shopTypes { id } }');
  const input = { name, typeId: shopTypes[0].id, location: { latitude: 21.03, longitude: 105.85 } };
  const { createShop } = await api(base, token, 'mutation($input: CreateShopInput!) { createShop(input: $input) { shop { id } } }', { input });
  return { id: createShop.shop.id, typeId: input.typeId };
}

/** A server's metrics: a function that adds up the lines of a name with all these labels. */
export async function metrics(base) {
  const lines = (await (await fetch(`${base}/metrics`)).text()).split('\n');
  return (name, ...labels) => lines
    .filter((line) => line.startsWith(`${name}{`) && labels.every((label) => line.includes(label)))
    .reduce((sum, line) => sum + Number(line.split(' ').pop()), 0);
}
