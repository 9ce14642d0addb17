// Starts GraphiQL with example tabs that lead through the product. Everything it loads comes from this server.
'use strict';

// What earlier answers said, so that the tabs can be run one after the other without copying tokens and ids.
// Whatever stands in a tab's own headers or variables wins.
const remembered = { token: null, voucherId: null, orderId: null, blogId: null, userId: null };

const tabs = [
  {
    query: `# Real places around Hoàn Kiếm lake, nearest first.
query NearbyShops {
  shopsNearby(
    center: { latitude: 21.0287, longitude: 105.8524 }
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
  },
  {
    query: `# 1. Run RequestLoginCode. The server prints the code to
#    its standard output (in the development profile).
# 2. Put the code into the variables and run LogIn.
# This page keeps the token for the other tabs. Elsewhere
# it belongs into a header: Authorization: Bearer <token>
mutation RequestLoginCode($phone: String!) {
  requestLoginCode(input: { phone: $phone }) {
    __typename
  }
}

mutation LogIn($phone: String!, $code: String!) {
  login(input: { phone: $phone, code: $code }) {
    token
    viewer {
      phone
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
    query: `# 1. Run FlashSales to see what is on sale.
# 2. Run TakeVoucher. An empty voucherId is the first of
#    those sales, an empty clientRequestId a new one.
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
    query: `# The order's state now, then each change. An empty
# orderId is the order of TakeVoucher. GraphiQL watches
# only in the tab in front: pay from another window, at
# the paymentUrl of the next tab.
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
    query: `# PayOrder answers the address of the payment page: open
# it in another window and press a button. SandboxPay
# does the same from here. No money moves.
mutation PayOrder($orderId: ID!) {
  payOrder(input: { orderId: $orderId }) {
    result {
      __typename
      ... on PaymentReady {
        paymentUrl
        order {
          payBy
        }
      }
    }
  }
}

mutation SandboxPay($orderId: ID!) {
  sandboxPay(input: { orderId: $orderId, action: SUCCEED }) {
    transactionIds
    delivered
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
  {
    query: `# Shops by what their guests say of them.
query BestShops {
  shops(sort: SCORE, first: 10) {
    edges {
      node {
        name
        score
        commentCount
        soldCount
        type {
          name
        }
        reviews(first: 2) {
          edges {
            node {
              score
              text
              author {
                nickname
              }
            }
          }
        }
      }
    }
  }
}
`,
  },
  {
    query: `# Notes that people like now. The mutations are about the
# first of them while blogId is empty; log in for those.
query HotNotes {
  hotBlogs(first: 5) {
    edges {
      node {
        id
        title
        content
        likeCount
        commentCount
        images {
          url
        }
        author {
          id
          nickname
        }
        shop {
          name
        }
        latestLikers {
          nickname
        }
        comments(first: 3) {
          edges {
            node {
              text
              author {
                nickname
              }
            }
          }
        }
      }
    }
  }
}

mutation Like($blogId: ID!) {
  likeBlog(input: { blogId: $blogId }) {
    blog {
      likeCount
      latestLikers {
        nickname
      }
    }
  }
}

mutation Comment($blogId: ID!) {
  addComment(input: { blogId: $blogId, text: "I want to go there!" }) {
    comment {
      text
      blog {
        commentCount
      }
    }
  }
}

# Pictures: POST /uploads answers ids for imageIds.
mutation Publish {
  publishBlog(
    input: { title: "My first note", content: "Written in GraphiQL." }
  ) {
    blog {
      id
      title
      author {
        nickname
      }
    }
  }
}
`,
    variables: { blogId: '' },
  },
  {
    query: `# Log in first: +84912345678 knows people here.
# Notes of those whom one follows, newest first.
query Feed {
  viewer {
    feed(first: 10) {
      edges {
        node {
          title
          createdAt
          author {
            nickname
          }
        }
      }
    }
  }
}

query Friends {
  viewer {
    user {
      followerCount
      following(first: 20) {
        edges {
          node {
            id
            nickname
            intro
            isMutual
          }
        }
      }
    }
  }
}

query Chats {
  viewer {
    conversations(first: 5) {
      edges {
        node {
          unreadCount
          user {
            id
            nickname
          }
          messages(first: 10) {
            edges {
              node {
                text
                sender {
                  nickname
                }
              }
            }
          }
        }
      }
    }
  }
}

# To the first person of Chats while userId is empty.
mutation Say($userId: ID!) {
  sendMessage(input: { userId: $userId, text: "Hello!" }) {
    message {
      number
      text
    }
    refusal
  }
}

query News {
  viewer {
    unreadNotificationCount
    notifications(first: 10) {
      edges {
        node {
          kind
          text
          createdAt
          actor {
            nickname
          }
        }
      }
    }
  }
}

mutation SignInToday {
  signIn(input: {}) {
    streak {
      days
      signedToday
    }
  }
}
`,
    variables: { userId: '' },
  },
  {
    query: `# Live, for whom is logged in. Publish a note as somebody
# you follow, like one of your notes as somebody else, or
# write to yourself from another window, and watch.
subscription NewNotes {
  feed {
    title
    author {
      nickname
    }
  }
}

subscription NewMessages {
  messageReceived {
    text
    sender {
      nickname
    }
  }
}

subscription NewNotifications {
  notificationReceived {
    kind
    text
    actor {
      nickname
    }
  }
}
`,
  },
];

/** Keeps what the tabs need from an answer. */
function remember(result) {
  const data = result?.data;
  const taken = data?.seckillVoucher?.result;
  remembered.token = data?.login?.token ?? remembered.token;
  remembered.voucherId = data?.flashSales?.edges?.[0]?.node?.id ?? remembered.voucherId;
  remembered.blogId = data?.hotBlogs?.edges?.[0]?.node?.id ?? remembered.blogId;
  remembered.userId = data?.viewer?.conversations?.edges?.[0]?.node?.user?.id ?? remembered.userId;
  remembered.orderId = taken?.order?.id ?? taken?.orderId ?? remembered.orderId;
}

/** Fills variables that were left empty. */
function filled(variables) {
  const known = {
    voucherId: remembered.voucherId,
    orderId: remembered.orderId,
    blogId: remembered.blogId,
    userId: remembered.userId,
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
  enableIncrementalDelivery: false,
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
    // The first tab has no variables: GraphiQL would not show those of the tab that it opens with.
    defaultTabs: tabs.map(({ query, variables }) => ({ query, variables: variables && JSON.stringify(variables, null, 2) })),
    isHeadersEditorEnabled: true,
    shouldPersistHeaders: false,
    defaultEditorToolsVisibility: 'variables',
  }),
);
