#!/usr/bin/env node
// Measures the flash sale (sale.mjs) of the release build, login and limits on.
//
//   make bench          COUNT=60000 buyers a run unless said
//
// Everything that is started is private to the run, and is stopped and removed at its end. Needs wrk, and what
// `make test` needs.

import { cpus } from 'node:os';
import { count, measureSale } from './sale.mjs';
import { cleanUp, folder, programs, startServices } from './stage.mjs';

for (const signal of ['SIGINT', 'SIGTERM']) {
  process.on(signal, () => {
    cleanUp(false);
    process.exit(1);
  });
}

try {
  const built = programs();
  const services = startServices();
  const lines = [`${cpus().length} cores (${cpus()[0].model.trim()}) shared by the load generator, the servers and the stores; ${new Date().toISOString().slice(0, 10)}`];
  lines.push('', `${count.toLocaleString('en-US')} buyers a run`, '', ...await measureSale(built.lifemate, services));
  console.log(lines.join('\n'));
  cleanUp(true);
} catch (error) {
  process.exitCode = 1;
  console.error(`${error.message}\n(logs are in ${folder})`);
  cleanUp(false);
}
