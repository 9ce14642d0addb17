// Starts GraphiQL with example tabs that lead through the product. Everything it loads comes from this server.
'use strict';

// What earlier answers said, so that the tabs can be run one after the other without copying tokens and ids.
// Whatever stands in a tab's own headers or variables wins.
const remembered = { token: null, voucherId: null, orderId: null };

const tabs = [
  {
    query: `# Real places around Hoàn Kiếm lake in Hanoi, nearest first.
query NearbyShops($latitude: Float!, $longitude: Float!) {
  shopsNearby(
    center: { latitude: $latitude, longitude: $longitude }
    radiusMeters: 1000
    first: 20
  ) {
    edges {
      distanceMeters
      node {
        id
        name
        address
        type {
          name
        }
      }
    }
    pageInfo {
      hasNextPage
      endCursor
    }
  }
}
`,
    variables: { latitude: 21.0287, longitude: 105.8524 },
  },
  {
    query: `# Run RequestLoginCode first. In the development profile the server prints the code to its standard
# output: put it into the variables, then run LogIn. This page keeps the token for the other tabs;
# elsewhere it belongs into the header Authorization, as "Bearer <token>".
mutation RequestLoginCode($phone: String!) {
  requestLoginCode(input: { phone: $phone }) {
    __typename
  }
}

mutation LogIn($phone: String!, $code: String!) {
  login(input: { phone: $phone, code: $code }) {
    token
    user {
      id
      nickname
    }
  }
}

query WhoAmI {
  viewer {
    phone
    user {
      id
      nickname
    }
  }
}
`,
    variables: { phone: '+84912345678', code: '' },
  },
  {
    query: `# Run FlashSales to see what is on sale, then TakeVoucher. An empty voucherId is the first running
# sale that FlashSales showed; an empty clientRequestId is made up anew each time.
query FlashSales {
  flashSales(state: RUNNING, first: 10) {
    edges {
      node {
        id
        title
        payPrice {
          amount
          currencyCode
        }
        shop {
          name
        }
        sale {
          state
          stock
          total
          endsAt
        }
      }
    }
  }
}

mutation TakeVoucher($voucherId: ID!, $clientRequestId: String!) {
  seckillVoucher(
    input: { voucherId: $voucherId, clientRequestId: $clientRequestId }
  ) {
    result {
      __typename
      ... on SeckillAccepted {
        order {
          id
          status
        }
      }
      ... on SeckillPending {
        orderId
      }
      ... on AlreadyOrdered {
        order {
          id
          status
        }
      }
      ... on SaleNotStarted {
        startsAt
      }
      ... on RateLimited {
        retryAfterMs
      }
      ... on TryLater {
        retryAfterMs
      }
    }
  }
}
`,
    variables: { voucherId: '', clientRequestId: '' },
  },
  {
    query: `# The order's present state, then each change; ends when nothing more can change. An empty orderId is the
# order that TakeVoucher answered. Leave it running and pay in the next tab.
subscription WatchOrder($orderId: ID!) {
  orderStatus(orderId: $orderId) {
    id
    status
    payBy
    paidAt
    closedAt
    version
  }
}
`,
    variables: { orderId: '' },
  },
  {
    query: `# PayOrder answers the address of the payment page. SandboxPay is that page's first button:
# the built-in provider, which moves no money, calls back and the order becomes PAID.
mutation SandboxPay($orderId: ID!) {
  sandboxPay(input: { orderId: $orderId, action: SUCCEED }) {
    __typename
  }
}

mutation PayOrder($orderId: ID!) {
  payOrder(input: { orderId: $orderId }) {
    __typename
  }
}

query MyOrders {
  viewer {
    orders(first: 10) {
      edges {
        node {
          id
          status
          amount {
            amount
            currencyCode
          }
          voucher {
            title
          }
        }
      }
    }
  }
}
`,
    variables: { orderId: '' },
  },
];

/** Keeps what the tabs need from an answer. */
function remember(result) {
  const data = result?.data;
  const taken = data?.seckillVoucher?.result;
  remembered.token = data?.login?.token ?? remembered.token;
  remembered.voucherId = data?.flashSales?.edges?.[0]?.node?.id ?? remembered.voucherId;
  remembered.orderId = taken?.order?.id ?? taken?.orderId ?? remembered.orderId;
}

/** Fills variables that were left empty. */
function filled(variables) {
  const known = {
    voucherId: remembered.voucherId,
    orderId: remembered.orderId,
    clientRequestId: `graphiql-${Date.now()}`,
  };
  const entries = Object.entries(variables ?? {});
  return Object.fromEntries(entries.map(([name, value]) => [name, value === '' ? known[name] ?? value : value]));
}

function withToken(headers) {
  const names = Object.keys(headers ?? {}).map((name) => name.toLowerCase());
  if (!remembered.token || names.includes('authorization')) return headers ?? {};
  return { ...headers, Authorization: `Bearer ${remembered.token}` };
}

// Over a WebSocket, GraphiQL sends the headers in connection_init, which is where this API looks for the token.
const fetcher = GraphiQL.createFetcher({
  url: new URL('/graphql', location.href).href,
  subscriptionUrl: new URL('/graphql', location.href.replace(/^http/, 'ws')).href,
});

async function rememberingFetcher(params, options) {
  const result = await fetcher(
    { ...params, variables: filled(params.variables) },
    { ...options, headers: withToken(options?.headers) },
  );
  remember(result);
  return result;
}

ReactDOM.createRoot(document.getElementById('graphiql')).render(
  React.createElement(GraphiQL, {
    fetcher: rememberingFetcher,
    defaultTabs: tabs.map(({ query, variables }) => ({ query, variables: JSON.stringify(variables, null, 2), headers: '{}' })),
    defaultHeaders: '{}',
    isHeadersEditorEnabled: true,
    shouldPersistHeaders: false,
    defaultEditorToolsVisibility: 'variables',
  }),
);
