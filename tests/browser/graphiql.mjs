// Drives the GraphiQL page of a running server in the system's Chromium: it must load with nothing from outside,
// run tabs of its own, show the demo notes with their pictures, and show an order's change and a message over
// subscriptions, with the token of its headers pane.
//
// Told by the environment (scripts/browser-test does):
//   LM_BROWSER_URL       the server, no slash at the end
//   LM_BROWSER_OUTPUT    the file that the server's standard output goes to: login codes are read there
//   LM_BROWSER_MERCHANT  the phone of an account that may create shops
//   LM_BROWSER_CHROMIUM  the browser's program (default /usr/bin/chromium)

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { chromium } from 'playwright-core';

const base = required('LM_BROWSER_URL');
const output = required('LM_BROWSER_OUTPUT');
const merchantPhone = required('LM_BROWSER_MERCHANT');
const buyerPhone = '+8613912345678';

/** Nothing on this page may take longer, on a busy machine either. */
const LIMIT_MS = 30_000;

function required(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set; run scripts/browser-test`);
  return value;
}

// ---- the API, for what a person would have done before --------------------------------------------------------

async function api(token, query, variables = {}) {
  const headers = { 'content-type': 'application/json', ...(token && { authorization: `Bearer ${token}` }) };
  const response = await fetch(`${base}/graphql`, { method: 'POST', headers, body: JSON.stringify({ query, variables }) });
  const answer = await response.json();
  assert.ok(!answer.errors, `${query}\n${JSON.stringify(answer.errors)}`);
  return answer.data;
}

async function until(what, look) {
  const deadline = Date.now() + LIMIT_MS;
  for (;;) {
    const found = await look();
    if (found) return found;
    assert.ok(Date.now() < deadline, `not within ${LIMIT_MS} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

async function logIn(phone) {
  await api(null, 'mutation($phone: String!) { requestLoginCode(input: { phone: $phone }) { __typename } }', { phone });
  const code = await until(`a login code for ${phone}`, async () => {
    const lines = (await readFile(output, 'utf8')).split('\n').reverse();
    return lines.map((line) => line.match(/^login code for (\S+): (\d{6})$/)).find((match) => match?.[1] === phone)?.[2];
  });
  const login = 'mutation($phone: String!, $code: String!) { login(input: { phone: $phone, code: $code }) { token } }';
  return (await api(null, login, { phone, code })).login.token;
}

/** Opens a sale and takes a unit of it; answers the buyer's order. */
async function takeVoucher(merchant, buyer) {
  const { shopTypes } = await api(null, '{ shopTypes { id } }');
  const shop = await api(
    merchant,
    'mutation($input: CreateShopInput!) { createShop(input: $input) { shop { id } } }',
    { input: { name: 'Browser test', typeId: shopTypes[0].id, location: { latitude: 21.03, longitude: 105.85 } } },
  );
  const now = Date.now();
  const voucher = await api(
    merchant,
    'mutation($input: CreateVoucherInput!) { createVoucher(input: $input) { voucher { id } } }',
    {
      input: {
        shopId: shop.createShop.shop.id,
        kind: 'SECKILL',
        title: 'A bowl of noodles',
        payPrice: '1.00',
        value: '9.00',
        currencyCode: 'CNY',
        sale: {
          total: 10,
          startsAt: new Date(now - 60_000).toISOString(),
          endsAt: new Date(now + 3_600_000).toISOString(),
        },
      },
    },
  );
  const voucherId = voucher.createVoucher.voucher.id;
  const publish = 'mutation($voucherId: ID!) { publishVoucher(input: { voucherId: $voucherId }) { voucher { id } } }';
  await api(merchant, publish, { voucherId });
  const seckill = `mutation($voucherId: ID!) {
    seckillVoucher(input: { voucherId: $voucherId, clientRequestId: "browser-1" }) {
      result { __typename ... on SeckillAccepted { order { id } } }
    }
  }`;
  const { result } = (await api(buyer, seckill, { voucherId })).seckillVoucher;
  assert.equal(result.__typename, 'SeckillAccepted');
  return result.order.id;
}

async function pay(buyer, orderId) {
  await api(buyer, 'mutation($orderId: ID!) { payOrder(input: { orderId: $orderId }) { __typename } }', { orderId });
  const sandbox = 'mutation($orderId: ID!) { sandboxPay(input: { orderId: $orderId, action: SUCCEED }) { __typename } }';
  await api(buyer, sandbox, { orderId });
}

// ---- the page -------------------------------------------------------------------------------------------------

/** Puts text into one of GraphiQL's editors, as typing would. */
async function write(page, editor, text) {
  await page.locator(editor).first().evaluate((element, value) => element.CodeMirror.setValue(value), text);
}

const shown = (page) =>
  page.locator('.result-window .CodeMirror').first().evaluate((element) => element.CodeMirror.getValue());

const run = (page) => page.locator('button.graphiql-execute-button').click();

async function openTab(page, name) {
  const tabs = page.locator('.graphiql-tab-button');
  const names = await tabs.allInnerTexts();
  const index = names.findIndex((text) => name.test(text));
  assert.notEqual(index, -1, `no tab like ${name} among ${names.join(', ')}`);
  await tabs.nth(index).click();
}

/** Starts a subscription in a new tab, with a token in its headers pane. */
async function watch(page, name, subscription, token) {
  await page.locator('button.graphiql-tab-add').click();
  await page.getByRole('button', { name: 'Headers', exact: true }).first().click();
  await write(page, '.graphiql-query-editor .CodeMirror', subscription);
  // The page has read the text once the tab bears the operation's name.
  await until('the new tab named', async () => (await page.locator('.graphiql-tab-active').innerText()).trim() === name);
  await write(page, '.graphiql-editor-tool .graphiql-editor:not(.hidden) .CodeMirror', JSON.stringify({ Authorization: `Bearer ${token}` }));
  await run(page);
}

const context = {};
const checks = {
  'the page loads': async (page) => {
    await page.goto(`${base}/`, { waitUntil: 'networkidle', timeout: LIMIT_MS });
    await page.locator('.graphiql-container').waitFor({ timeout: LIMIT_MS });
    assert.ok((await page.locator('.graphiql-tab-button').count()) >= 5, 'fewer than five example tabs');
  },

  "a tab's query runs": async (page) => {
    await openTab(page, /near/i);
    await run(page);
    const text = await until('shops by distance', async () => {
      const result = await shown(page);
      return result.includes('distanceMeters') && result;
    });
    const { data } = JSON.parse(text);
    const distances = data.shopsNearby.edges.map((edge) => edge.distanceMeters);
    assert.ok(distances.length > 0, 'no shop is near');
    assert.deepEqual(distances, distances.toSorted((a, b) => a - b), 'not by distance');
  },

  'the demo notes have pictures': async (page) => {
    await openTab(page, /notes/i);
    // A tab with several operations asks which, once the page has read it.
    const menu = page.getByRole('menuitem', { name: 'HotNotes' });
    await until('the menu of operations', async () => {
      await run(page);
      return menu.isVisible();
    });
    await menu.click();
    const text = await until('notes', async () => {
      const result = await shown(page);
      return result.includes('latestLikers') && result;
    });
    const [note] = JSON.parse(text).data.hotBlogs.edges.map((edge) => edge.node);
    const width = await page.evaluate(async (url) => {
      const picture = new Image();
      picture.src = url;
      await picture.decode();
      return picture.naturalWidth;
    }, note.images[0].url);
    assert.equal(width, 400);
  },

  'a message comes while one looks': async (page) => {
    const [reader, writer] = await Promise.all(['+8613912345601', '+8613912345602'].map(logIn));
    const ids = [];
    for (const token of [reader, writer]) ids.push((await api(token, '{ viewer { user { id } } }')).viewer.user.id);
    const follow = 'mutation($userId: ID!) { follow(input: { userId: $userId }) { __typename } }';
    await api(reader, follow, { userId: ids[1] });
    await api(writer, follow, { userId: ids[0] });
    await watch(page, 'Messages', 'subscription Messages { messageReceived { text sender { id } } }', reader);
    const send = 'mutation($userId: ID!) { sendMessage(input: { userId: $userId, text: "Seen?" }) { refusal message { id } } }';
    // Sent until it is seen: the page does not say when the server has begun to watch.
    await until('the message', async () => {
      const { refusal } = (await api(writer, send, { userId: ids[0] })).sendMessage;
      assert.equal(refusal, null);
      return (await shown(page)).includes('Seen?');
    });
    // The same button stops it.
    await run(page);
  },

  "a subscription receives an order's change": async (page) => {
    const merchant = await logIn(merchantPhone);
    const buyer = await logIn(buyerPhone);
    const orderId = await takeVoucher(merchant, buyer);
    await watch(page, 'Watch', `subscription Watch { orderStatus(orderId: "${orderId}") { id status } }`, buyer);
    await until('the order unpaid', async () => (await shown(page)).includes('"UNPAID"'));
    await pay(buyer, orderId);
    await until('the order paid', async () => (await shown(page)).includes('"PAID"'));
  },

  'nothing was asked of anybody else': async () => {
    const { host } = new URL(base);
    const outside = context.requests.filter((url) => !['data:', 'blob:'].includes(new URL(url).protocol) && new URL(url).host !== host);
    assert.ok(context.requests.length > 1, 'no request was seen at all');
    assert.deepEqual(outside, []);
  },

  'the page raised no error': async () => assert.deepEqual(context.errors, []),
};

// ---- all of it ------------------------------------------------------------------------------------------------

const browser = await chromium.launch({
  executablePath: process.env.LM_BROWSER_CHROMIUM ?? '/usr/bin/chromium',
  // The flags after the first two keep Chromium itself from calling home.
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync'],
});
const page = await browser.newPage({ viewport: { width: 1400, height: 900 } });
page.setDefaultTimeout(LIMIT_MS);
context.requests = [];
context.errors = [];
page.on('request', (request) => context.requests.push(request.url()));
page.on('websocket', (socket) => context.requests.push(socket.url()));
page.on('pageerror', (error) => context.errors.push(String(error)));

let passed = 0;
let failed = 0;
for (const [name, check] of Object.entries(checks)) {
  try {
    await check(page);
    passed += 1;
    console.log(`ok      ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED  ${name}\n${error.stack}`);
    if (process.env.LM_BROWSER_SCREENSHOT) await page.screenshot({ path: process.env.LM_BROWSER_SCREENSHOT });
  }
}
await browser.close();
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
