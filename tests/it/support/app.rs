//! One product of a test's own: its stores, its nodes, its people. Ends by proving that the pipeline is quiet.

use std::time::Duration;

use domain::Services;
use domain::infra::redis::Redis;
use domain::users::{Phone, Role};
use lifemate::config::{CodeSender, Config};
use lifemate::server::{Server, Work};
use sea_orm::DatabaseConnection;
use serde_json::Value;
use tokio::time::Instant;

use super::client::{Answer, Client};
use super::code_inbox::CodeInbox;
use super::people::{TestUser, mint_users, request_login_code, try_log_in};
use super::quiet::{failed_checks, unrest};
use super::sale::SaleBuilder;
use super::stores::{Store, Stores, add_shop_type, shared};
use super::subscription::Subscription;
use super::wait::eventually;

/// How long a pipeline may take to come to rest.
const QUIET_LIMIT: Duration = Duration::from_secs(60);
/// The limit's own message says more than that of the wait, so it shall come first.
const LOOK_SLACK: Duration = Duration::from_secs(10);

/// Something that a test changes in its configuration.
type Change = Box<dyn FnOnce(&mut Config)>;

/// What a test may choose before its product starts.
pub(crate) struct Builder {
    store: Option<Store>,
    redis_url: Option<String>,
    kafka_brokers: Option<String>,
    work: Work,
    changes: Vec<Change>,
}

impl Builder {
    /// On another database than MariaDB.
    pub(crate) fn on(mut self, store: Store) -> Self {
        self.store = Some(store);
        self
    }

    /// As `make run` does: SQLite and a Redis child in the data folder.
    pub(crate) fn embedded(mut self) -> Self {
        self.store = None;
        self
    }

    /// On a Redis of the test's own.
    pub(crate) fn on_redis(mut self, url: String) -> Self {
        self.redis_url = Some(url);
        self
    }

    /// Orders go by the shared Kafka.
    pub(crate) fn with_kafka(self) -> Self {
        self.on_kafka(shared("LM_TEST_KAFKA_BROKERS"))
    }

    /// Orders go by a broker of the test's own.
    pub(crate) fn on_kafka(mut self, brokers: String) -> Self {
        self.kafka_brokers = Some(brokers);
        self
    }

    /// Nothing writes, closes or gives back, unless the test does.
    pub(crate) fn without_workers(mut self) -> Self {
        self.work = Work::Elsewhere;
        self
    }

    /// Any other setting.
    pub(crate) fn config(mut self, change: impl FnOnce(&mut Config) + 'static) -> Self {
        self.changes.push(Box::new(change));
        self
    }

    /// Makes the stores and starts one node.
    pub(crate) async fn start(self) -> TestApp {
        let mut stores = match self.store {
            Some(store) => Stores::create(store).await,
            None => Stores::embedded(),
        };
        if let Some(url) = self.redis_url {
            stores.redis_url = Some(url);
        }
        stores.kafka_brokers = self.kafka_brokers;
        let inbox = CodeInbox::start().await;
        let mut config = stores.config();
        config.code_sender = CodeSender::Webhook;
        config.code_webhook_url = Some(inbox.url());
        config.code_webhook_secret = Some(domain::settings::Secret::new(
            "the-code-webhook-secret-of-tests",
        ));
        for change in self.changes {
            change(&mut config);
        }
        let first = Node::start(config.clone(), self.work).await;
        if self.store.is_none() {
            add_shop_type(first.services().infra().db.conn()).await;
        }
        TestApp {
            nodes: vec![first],
            config,
            work: self.work,
            inbox,
            stores,
        }
    }
}

/// One server in this process.
pub(crate) struct Node {
    server: Server,
}

impl Node {
    async fn start(config: Config, work: Work) -> Self {
        Self {
            server: Server::start_with(config, work).await.unwrap(),
        }
    }

    /// A client of this node that is signed in nowhere.
    pub(crate) fn client(&self) -> Client {
        Client::to(self.server.addr())
    }

    /// What this node works with.
    pub(crate) fn services(&self) -> &Services {
        self.server.services()
    }
}

/// A product of the test's own. End it by [`TestApp::finish`], or by [`TestApp::close`] where the test left work undone
/// on purpose.
pub(crate) struct TestApp {
    /// The first is the one that a test speaks to unless it says otherwise. Empty once the test has ended.
    nodes: Vec<Node>,
    config: Config,
    work: Work,
    /// Where login codes arrive.
    pub(crate) inbox: CodeInbox,
    pub(crate) stores: Stores,
}

impl TestApp {
    /// MariaDB, the shared Redis, the bus in the process, workers inside.
    pub(crate) async fn start() -> Self {
        Self::build().start().await
    }

    /// The same, to be changed first.
    pub(crate) fn build() -> Builder {
        Builder {
            store: Some(Store::MariaDb),
            redis_url: None,
            kafka_brokers: None,
            work: Work::Inside,
            changes: Vec::new(),
        }
    }

    /// Starts one more node on the same stores, and hands out a client of it that is signed in nowhere.
    pub(crate) async fn second_node(&mut self) -> Client {
        let node = Node::start(self.config.clone(), self.work).await;
        let client = node.client();
        self.nodes.push(node);
        client
    }

    fn first(&self) -> &Node {
        &self.nodes[0]
    }

    /// A client of the first node that is signed in nowhere.
    pub(crate) fn client(&self) -> Client {
        self.first().client()
    }

    /// A client of the first node as a user.
    pub(crate) fn as_user(&self, user: &TestUser) -> Client {
        self.client().as_user(user)
    }

    /// Runs one operation as nobody.
    pub(crate) async fn gql(&self, query: &str, variables: Value) -> Answer {
        self.client().gql(query, variables).await
    }

    /// Subscribes at the first node as a user.
    pub(crate) async fn subscribe(
        &self,
        user: &TestUser,
        query: &str,
        variables: Value,
    ) -> Subscription {
        Subscription::open(&self.as_user(user), query, variables).await
    }

    /// What the first node works with.
    pub(crate) fn services(&self) -> &Services {
        self.first().services()
    }

    /// The database.
    pub(crate) fn db(&self) -> &DatabaseConnection {
        self.services().infra().db.conn()
    }

    /// The Redis that sells.
    pub(crate) fn redis(&self) -> &Redis {
        &self.services().infra().redis
    }

    /// Moves the clocks of all nodes.
    pub(crate) fn shift_clocks(&self, by: Duration) {
        let by_ms = i64::try_from(by.as_millis()).unwrap();
        for node in &self.nodes {
            node.services().infra().clock.shift_ms(by_ms);
        }
    }

    /// Registers people, each with a session.
    pub(crate) async fn users(&self, count: u32) -> Vec<TestUser> {
        mint_users(self.services(), count).await
    }

    /// Registers one person.
    pub(crate) async fn user(&self) -> TestUser {
        self.users(1).await.remove(0)
    }

    /// Somebody who may own shops.
    pub(crate) async fn merchant(&self) -> TestUser {
        self.with_role(Role::Merchant).await
    }

    /// Somebody who may do everything.
    pub(crate) async fn admin(&self) -> TestUser {
        self.with_role(Role::Admin).await
    }

    async fn with_role(&self, role: Role) -> TestUser {
        let user = self.user().await;
        // The session learns of it, and no node holds a copy of it yet.
        self.services()
            .users
            .grant(&Phone::parse(&user.phone).unwrap(), role)
            .await
            .unwrap();
        user
    }

    /// Logs in as a person does: asks for a code, reads it, types it.
    pub(crate) async fn log_in(&self, phone: &str) -> TestUser {
        request_login_code(&self.client(), phone).await.data();
        let code = self.inbox.code_for(phone).await;
        let token = try_log_in(&self.client(), phone, &code)
            .await
            .text("login.token")
            .to_owned();
        let session = self
            .services()
            .users
            .authenticate(&token)
            .await
            .unwrap()
            .unwrap();
        TestUser {
            id: session.user_id.0,
            phone: phone.to_owned(),
            token,
        }
    }

    /// A flash sale to be made by a merchant of its own, at a shop of its own.
    pub(crate) async fn sale(&self) -> SaleBuilder {
        let merchant = self.merchant().await;
        SaleBuilder::by(&self.client(), &merchant)
    }

    /// Waits until the pipeline rests, asserts that nothing was lost, and ends.
    pub(crate) async fn finish(self) {
        let mut last = Vec::new();
        let deadline = Instant::now() + QUIET_LIMIT;
        eventually(QUIET_LIMIT + LOOK_SLACK, "rest", async || {
            last = unrest(self.services()).await;
            last.extend(failed_checks(self.services()).await);
            assert!(
                last.is_empty() || Instant::now() < deadline,
                "not at rest within {QUIET_LIMIT:?}:\n{}",
                last.join("\n")
            );
            last.is_empty()
        })
        .await;
        self.close().await;
    }

    /// Stops the nodes, the last first, and removes the database.
    pub(crate) async fn close(mut self) {
        while let Some(node) = self.nodes.pop() {
            node.server.stop().await;
        }
        self.stores.drop_database().await;
    }
}

impl Drop for TestApp {
    fn drop(&mut self) {
        let is_ended = self.nodes.is_empty();
        assert!(
            is_ended || std::thread::panicking(),
            "end the test with `app.finish().await`, or `app.close().await`"
        );
    }
}
