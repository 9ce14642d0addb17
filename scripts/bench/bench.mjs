#!/usr/bin/env node
// Measures the flash sale (sale.mjs) and cached reads (reads.mjs) of the release build, login and limits on.
//
//   make bench          COUNT=60000 buyers a run unless said; ONLY=sale or ONLY=reads for one of the two
//
// Everything that is started is private to the run, and is stopped and removed at its end. Needs wrk, and what
// `make test` needs.

import { cpus } from 'node:os';
import { measureReads } from './reads.mjs';
import { count, measureSale } from './sale.mjs';
import { cleanUp, folder, programs, startServices } from './stage.mjs';

const wanted = (part) => [undefined, '', part].includes(process.env.ONLY);

for (const signal of ['SIGINT', 'SIGTERM']) {
  process.on(signal, () => {
    cleanUp(false);
    process.exit(1);
  });
}

try {
  const built = programs('constant_shop', 'stock_shop', 'local_tier');
  const services = startServices();
  const lines = [`${cpus().length} cores (${cpus()[0].model.trim()}) shared by the load generator, the servers and the stores; ${new Date().toISOString().slice(0, 10)}`];
  if (wanted('sale')) {
    lines.push('', `${count.toLocaleString('en-US')} buyers a run`, '', ...await measureSale(built.lifemate, services));
  }
  if (wanted('reads')) lines.push('', ...await measureReads(built, services));
  console.log(lines.join('\n'));
  cleanUp(true);
} catch (error) {
  process.exitCode = 1;
  console.error(`${error.message}\n(logs are in ${folder})`);
  cleanUp(false);
}
