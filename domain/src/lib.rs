//! The rules of the product. Not for GraphQL or HTTP: `schema` and `src` speak those.

#![warn(missing_docs)]

// The concepts, in reading order.
pub mod users;

pub mod uploads;

pub mod notifications;

pub mod shops;

pub mod vouchers;

pub mod orders;

pub mod reminders;
pub mod reviews;

pub mod follows;

pub mod blogs;

pub mod feeds;

pub mod chats;

pub mod sign_ins;
pub mod visits;

pub mod statistics;

pub mod rate_limits;
pub mod switches;

pub mod infra;
pub mod settings;

use std::time::Duration;

use deadpool_redis::redis::RedisError;
use sea_orm::DbErr;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use blogs::Blogs;
use chats::Chats;
use feeds::Feeds;
use follows::Follows;
use infra::Infra;
use infra::bus::{Bus, InProcessBus, KafkaBus};
use infra::cache::Cache;
use infra::clock::Clock;
use infra::db::Db;
use infra::ids::{Ids, IdsError};
use infra::redis::{Redis, UnfitRedis};
use notifications::Notifications;
use orders::Orders;
use rate_limits::RateLimits;
use reminders::Reminders;
use reviews::Reviews;
use settings::Settings;
use shops::Shops;
use sign_ins::SignIns;
use statistics::Statistics;
use switches::Switches;
use uploads::Uploads;
use users::Users;
use visits::Visits;
use vouchers::Vouchers;

/// How often the clock looks at the database's.
const FOLLOW_CLOCK_EVERY: Duration = Duration::from_secs(10);
/// How often the worker id's lease of 24 h is renewed.
const RENEW_IDS_EVERY: Duration = Duration::from_secs(3_600);
/// A failed renewal is tried again after this long.
const RENEW_IDS_AGAIN: Duration = Duration::from_secs(60);
/// What is still queued for Kafka at the end has this long.
const FLUSH_LIMIT: Duration = Duration::from_secs(3);
/// Writes that the cache's Redis has not heard of yet have this long.
const SETTLE_LIMIT: Duration = Duration::from_secs(3);

/// Why the services could not be connected.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The database.
    #[error("cannot use the database (database_url): {0}")]
    Database(#[from] DbErr),
    /// Redis.
    #[error("cannot use redis (redis_url): {0}")]
    Redis(#[from] RedisError),
    /// Redis would lose orders.
    #[error("{0}; set it, or in the development profile allow it by unsafe_redis")]
    UnfitRedis(#[from] UnfitRedis),
    /// Kafka's configuration.
    #[error("cannot use kafka (kafka_brokers): {0}")]
    Kafka(#[from] rdkafka::error::KafkaError),
    /// The cache.
    #[error("cannot make the cache: {0}")]
    Cache(#[from] infra::cache::Error),
    /// Where pictures lie.
    #[error(transparent)]
    Uploads(#[from] uploads::SetupError),
    /// No ids.
    #[error("cannot make ids: {0}; are the migrations done? (lifemate migrate up)")]
    Ids(#[from] IdsError),
}

/// A store or service that is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The database does not answer.
    Database,
    /// Redis does not answer.
    Redis,
    /// Redis answers, but the sale path is being recovered.
    SalePath,
    /// Kafka does not answer; the sale goes on without it.
    Kafka,
}

impl Missing {
    /// The name an operator reads.
    pub fn name(self) -> &'static str {
        match self {
            Self::Database => "database",
            Self::Redis => "redis",
            Self::SalePath => "sale path",
            Self::Kafka => "kafka",
        }
    }
}

/// All concepts over their stores. Cheap to clone.
#[derive(Clone)]
pub struct Services {
    /// Accounts and sessions.
    pub users: Users,
    /// Pictures that users upload.
    pub uploads: Uploads,
    /// Shops, and where they are.
    pub shops: Shops,
    /// Vouchers and their sales, as their merchants describe them.
    pub vouchers: Vouchers,
    /// Orders and flash sales.
    pub orders: Orders,
    /// People who follow each other, writing to each other.
    pub chats: Chats,
    /// What guests say of shops.
    pub reviews: Reviews,
    /// Reminders of sales to come.
    pub reminders: Reminders,
    /// What users are told.
    pub notifications: Notifications,
    /// Who follows whom.
    pub follows: Follows,
    /// Days on which users signed in.
    pub sign_ins: SignIns,
    /// How many different people came.
    pub visits: Visits,
    /// Notes of users.
    pub blogs: Blogs,
    /// The notes of those whom somebody follows.
    pub feeds: Feeds,
    /// Figures of each day.
    pub statistics: Statistics,
    /// Exact limits over all nodes.
    pub rate_limits: RateLimits,
    /// Features that can be given up.
    pub switches: Switches,
    infra: Infra,
    id_secret: settings::Secret,
}

impl Services {
    /// Connects to the stores and checks that they are fit. The tables must be there.
    ///
    /// # Errors
    /// Names what cannot be used.
    pub async fn connect(settings: &Settings) -> Result<Self, ConnectError> {
        let db = Db::connect(&settings.database_url, settings.database_max_connections).await?;
        let redis = Redis::new(&settings.redis_url, &settings.deployment)?;
        redis.line().await?;
        if !settings.unsafe_redis {
            redis.require_fit_to_sell().await?;
        }
        let bus = match &settings.kafka {
            None => Bus::InProcess(InProcessBus::default()),
            Some(kafka) => {
                let topic = format!("{}.seckill.orders.v1", settings.deployment);
                Bus::Kafka(KafkaBus::new(
                    kafka.clone(),
                    topic,
                    format!("{}.writer", settings.deployment),
                )?)
            }
        };
        let clock = Clock::default();
        clock.follow(&db).await?;
        let ids = Ids::lease(&db, clock.clone()).await?;
        let cache = Cache::new(match settings.cache_redis_url == settings.redis_url {
            true => redis.clone(),
            false => Redis::new(&settings.cache_redis_url, &settings.deployment)?,
        })?;
        let infra = Infra {
            db,
            redis,
            cache,
            clock,
            ids,
            bus,
        };
        let users = Users::new(infra.clone(), settings);
        let uploads = Uploads::new(infra.clone(), users.clone(), settings)?;
        let shops = Shops::new(infra.clone(), uploads.clone());
        let sign_ins = SignIns::new(infra.clone(), users.clone());
        let visits = Visits::new(infra.clone(), settings);
        let statistics = Statistics::new(infra.clone(), visits.clone(), settings);
        let vouchers = Vouchers::new(infra.clone(), shops.clone());
        let switches = Switches::new(infra.clone());
        switches
            .read()
            .await
            .map_err(|switches::Error::Database(e)| e)?;
        let notifications = Notifications::new(infra.clone());
        let follows = Follows::new(infra.clone(), users.clone());
        let rate_limits = RateLimits::new(infra.redis.clone(), settings.rate_limits);
        let chats = Chats::new(infra.clone(), users.clone(), follows.clone());
        let blogs = Blogs::new(
            infra.clone(),
            shops.clone(),
            uploads.clone(),
            notifications.clone(),
        );
        let lead = settings.reminder_lead;
        let reminders = Reminders::new(infra.clone(), notifications.clone(), lead);
        let orders = Orders::new(
            infra.clone(),
            settings.clone(),
            vouchers.clone(),
            notifications.clone(),
        );
        let reviews = Reviews::new(
            infra.clone(),
            shops.clone(),
            orders.clone(),
            uploads.clone(),
        );
        let parts = feeds::Parts {
            users: users.clone(),
            follows: follows.clone(),
            blogs: blogs.clone(),
        };
        let feeds = Feeds::new(infra.clone(), parts, settings.feeds);
        Ok(Self {
            users,
            uploads,
            shops,
            vouchers,
            orders,
            chats,
            reviews,
            reminders,
            notifications,
            follows,
            sign_ins,
            visits,
            feeds,
            blogs,
            statistics,
            rate_limits,
            switches,
            infra,
            id_secret: settings.sale.id_secret.clone(),
        })
    }

    /// The connections, for commands and tests.
    pub fn infra(&self) -> &Infra {
        &self.infra
    }

    /// Seals what the API hands out and takes back: order ids and cursors.
    pub fn id_secret(&self) -> &settings::Secret {
        &self.id_secret
    }

    /// What every process runs, until `stop`: events of other nodes, the clock, the worker id.
    pub async fn run_node(&self, stop: CancellationToken) {
        self.infra.redis.listen(stop.clone());
        let tasks = TaskTracker::new();
        let (orders, orders_stop) = (self.orders.clone(), stop.clone());
        tasks.spawn(async move { orders.run_node(orders_stop).await });
        let (chats, chats_stop) = (self.chats.clone(), stop.clone());
        tasks.spawn(async move { chats.run_node(chats_stop).await });
        let (notifications, notifications_stop) = (self.notifications.clone(), stop.clone());
        tasks.spawn(async move { notifications.run_node(notifications_stop).await });
        let (redis, redis_stop) = (self.infra.redis.clone(), stop.clone());
        tasks.spawn(async move { redis.keep_alive(redis_stop).await });
        let cache = self.infra.cache.clone();
        if !cache.redis().is_same(&self.infra.redis) {
            cache.redis().listen(stop.clone());
            let (redis, redis_stop) = (cache.redis().clone(), stop.clone());
            tasks.spawn(async move { redis.keep_alive(redis_stop).await });
        }
        let cache_stop = stop.clone();
        tasks.spawn(async move { cache.run(cache_stop).await });
        let (visits, visits_stop) = (self.visits.clone(), stop.clone());
        tasks.spawn(async move { visits.run(visits_stop).await });
        let (switches, switches_stop) = (self.switches.clone(), stop.clone());
        tasks.spawn(async move { switches.run(switches_stop).await });
        let (shops, shops_stop) = (self.shops.clone(), stop.clone());
        tasks.spawn(async move { shops.prepare_index(shops_stop).await });
        let (feeds, feeds_stop) = (self.feeds.clone(), stop.clone());
        tasks.spawn(async move { feeds.run_node(feeds_stop).await });
        tasks.spawn(follow_clock(self.infra.clone(), stop.clone()));
        tasks.spawn(renew_ids(self.infra.clone(), stop.clone()));
        if let Bus::Kafka(bus) = self.infra.bus.clone() {
            tasks.spawn(prepare_topic(bus, stop.clone()));
        }
        tasks.close();
        tasks.wait().await;
    }

    /// What processes with workers run, until `stop`: what some process must do for all of them.
    pub async fn run_workers(&self, stop: CancellationToken) {
        let tasks = TaskTracker::new();
        let (orders, orders_stop) = (self.orders.clone(), stop.clone());
        tasks.spawn(async move { orders.run_workers(orders_stop).await });
        let (reminders, reminders_stop) = (self.reminders.clone(), stop.clone());
        tasks.spawn(async move { reminders.run_workers(reminders_stop).await });
        let (statistics, statistics_stop) = (self.statistics.clone(), stop.clone());
        tasks.spawn(async move { statistics.run_workers(statistics_stop).await });
        let (uploads, uploads_stop) = (self.uploads.clone(), stop.clone());
        tasks.spawn(async move { uploads.run_workers(uploads_stop).await });
        let (feeds, feeds_stop) = (self.feeds.clone(), stop.clone());
        tasks.spawn(async move { feeds.run_workers(feeds_stop).await });
        tasks.close();
        tasks.wait().await;
    }

    /// What `/health/ready` says is missing; empty when the node can serve.
    pub async fn missing(&self) -> Vec<Missing> {
        let (db, redis, bus) = tokio::join!(
            self.infra.db.is_up(),
            self.infra.redis.is_up(),
            self.infra.bus.is_up()
        );
        let mut missing = Vec::new();
        if !db {
            missing.push(Missing::Database);
        }
        if !redis {
            missing.push(Missing::Redis);
        } else if !self.orders.is_fenced().await {
            missing.push(Missing::SalePath);
        }
        if !bus {
            missing.push(Missing::Kafka);
        }
        missing
    }

    /// Sends what is queued, gives the worker id back and closes the pools.
    pub async fn close(self) {
        self.infra.bus.flush(FLUSH_LIMIT).await;
        let unsaid = self.infra.cache.settle(SETTLE_LIMIT).await;
        if unsaid > 0 {
            tracing::warn!(
                writes = unsaid,
                "redis was not told of some writes: other nodes may show old rows for minutes"
            );
        }
        if let Err(e) = self.infra.ids.release(&self.infra.db).await {
            tracing::debug!(error = %e, "the worker id's lease runs out by itself");
        }
        self.infra.db.close().await;
    }
}

async fn follow_clock(infra: Infra, stop: CancellationToken) {
    while !stop.is_cancelled() {
        rest(FOLLOW_CLOCK_EVERY, &stop).await;
        let (clock, db) = (infra.clock.clone(), infra.db.clone());
        if let Err(e) = infra.db.run(async move { clock.follow(&db).await }).await {
            tracing::debug!(error = %e, "the database's time was not read; the last difference stays");
        }
    }
}

async fn renew_ids(infra: Infra, stop: CancellationToken) {
    let mut wait = RENEW_IDS_EVERY;
    loop {
        rest(wait, &stop).await;
        if stop.is_cancelled() {
            return;
        }
        wait = match infra.ids.renew(&infra.db).await {
            Ok(()) => RENEW_IDS_EVERY,
            Err(e) => {
                tracing::warn!(error = %e, "the worker id's lease was not renewed; trying again");
                RENEW_IDS_AGAIN
            }
        };
    }
}

/// The topic must be there before the first order is sent; until then sends fail and are written by their node.
async fn prepare_topic(bus: KafkaBus, stop: CancellationToken) {
    while !stop.is_cancelled() {
        match bus.prepare().await {
            Ok(()) => return,
            Err(e) => tracing::debug!(error = %e, "the topic is not ready yet"),
        }
        rest(Duration::from_secs(1), &stop).await;
    }
}

async fn rest(time: Duration, stop: &CancellationToken) {
    tokio::select! {
        () = tokio::time::sleep(time) => {}
        () = stop.cancelled() => {}
    }
}
