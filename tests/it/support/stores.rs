//! Stores of a test's own: a database, a deployment's name in the shared Redis and Kafka, a folder.

use std::path::{Path, PathBuf};

use entity::shop_type;
use lifemate::config::Config;
use migration::{Migrator, MigratorTrait};
use sea_orm::{
    ConnectOptions, ConnectionTrait, Database, DatabaseConnection, EntityTrait, IntoActiveModel,
};

/// Signs what the nodes of one test hand out, so that each node knows the others' IDs and cursors.
const ID_SECRET: &str = "the-id-secret-of-every-test-in-tests-it";
/// Signs payment callbacks.
pub(crate) const WEBHOOK_SECRET: &str = "the-webhook-secret-of-every-test-in-tests-it";

/// Which database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    /// A file in the test's own folder.
    Sqlite,
    /// The shared MariaDB server.
    MariaDb,
    /// The shared PostgreSQL server.
    Postgres,
}

/// A variable that `scripts/services` set.
pub(crate) fn shared(variable: &str) -> String {
    std::env::var(variable)
        .unwrap_or_else(|_| panic!("{variable} is not set: `make test`, or `eval \"$(scripts/services start)\"` before `cargo test`"))
}

/// Eight characters that no other test has.
pub(crate) fn unique() -> String {
    format!("{:08x}", rand::random::<u32>())
}

/// An empty folder that goes when this does.
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes one. The name is short: sockets lie in such folders, and theirs may not pass 107 bytes.
    pub(crate) fn make(purpose: &str) -> Self {
        let path = std::env::temp_dir().join(format!("lm-{purpose}-{}", unique()));
        std::fs::create_dir_all(&path).unwrap();
        Self { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    #[expect(clippy::print_stderr, reason = "a failed test says where its logs are")]
    fn drop(&mut self) {
        // A failed test's logs and stores are what one wants to see.
        if std::thread::panicking() {
            eprintln!("left for you to look at: {}", self.path.display());
        } else {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// What the nodes of one test share.
pub(crate) struct Stores {
    /// Prefix of all keys, channels, topics and groups of this test.
    pub(crate) deployment: String,
    /// The migrated database; `None`: the one that the server keeps in its folder.
    pub(crate) database_url: Option<String>,
    /// The Redis that sells; `None`: the one that the server keeps in its folder.
    pub(crate) redis_url: Option<String>,
    /// The broker, where the test has one.
    pub(crate) kafka_brokers: Option<String>,
    /// Data folder, logs.
    pub(crate) folder: Folder,
    store: Option<Store>,
}

impl Stores {
    /// Makes and migrates a database that knows one type of shop, to be used with the shared Redis and the bus in the process.
    pub(crate) async fn create(store: Store) -> Self {
        let deployment = format!("t{}", unique());
        let folder = Folder::make("test");
        let database_url = match store {
            Store::Sqlite => format!("sqlite://{}/test.db?mode=rwc", folder.path().display()),
            Store::MariaDb | Store::Postgres => {
                let server = server_url(store);
                run_on(&admin_url(store), &create_statement(store, &deployment)).await;
                format!("{server}/{deployment}")
            }
        };
        let conn = connect(&database_url).await;
        Migrator::up(&conn, None).await.unwrap();
        add_shop_type(&conn).await;
        conn.close().await.unwrap();
        let redis_url = Some(shared("LM_TEST_REDIS_URL"));
        Self {
            deployment,
            database_url: Some(database_url),
            redis_url,
            kafka_brokers: None,
            folder,
            store: Some(store),
        }
    }

    /// Names a folder, and leaves it to the server to keep its stores there.
    pub(crate) fn embedded() -> Self {
        let (deployment, folder) = (format!("t{}", unique()), Folder::make("test"));
        Self {
            deployment,
            database_url: None,
            redis_url: None,
            kafka_brokers: None,
            folder,
            store: None,
        }
    }

    /// The same with the shared broker.
    pub(crate) fn with_kafka(mut self) -> Self {
        self.kafka_brokers = Some(shared("LM_TEST_KAFKA_BROKERS"));
        self
    }

    /// The configuration of a node on these stores, on a free port.
    pub(crate) fn config(&self) -> Config {
        Config {
            http_addr: "127.0.0.1:0".to_owned(),
            database_url: self.database_url.clone(),
            database_max_connections: 12,
            redis_url: self.redis_url.clone(),
            kafka_brokers: self.kafka_brokers.clone(),
            data_dir: self.folder.path().to_owned(),
            ..base_config(&self.deployment)
        }
    }

    /// The same for a process, as environment variables.
    pub(crate) fn env(&self) -> Vec<(String, String)> {
        let mut env = vec![
            ("DATABASE_MAX_CONNECTIONS", "20".to_owned()),
            ("DEPLOYMENT", self.deployment.clone()),
            ("DATA_DIR", self.folder.path().display().to_string()),
            ("ID_SECRET", ID_SECRET.to_owned()),
            ("WEBHOOK_SECRET", WEBHOOK_SECRET.to_owned()),
            ("HTTP_ADDR", "127.0.0.1:0".to_owned()),
        ];
        let stores = [
            ("DATABASE_URL", &self.database_url),
            ("REDIS_URL", &self.redis_url),
            ("KAFKA_BROKERS", &self.kafka_brokers),
        ];
        env.extend(
            stores
                .into_iter()
                .filter_map(|(name, value)| Some((name, value.clone()?))),
        );
        env.into_iter()
            .map(|(name, value)| (format!("LIFEMATE_{name}"), value))
            .collect()
    }

    /// Removes the database from its server. What is left in Redis and Kafka goes with those.
    pub(crate) async fn drop_database(&self) {
        let Some(store) = self.store else { return };
        if let Some(statement) = drop_statement(store, &self.deployment) {
            run_on(&admin_url(store), &statement).await;
        }
    }
}

/// What every node of a test is configured with, wherever its stores are.
pub(crate) fn base_config(deployment: &str) -> Config {
    Config {
        deployment: deployment.to_owned(),
        id_secret: Some(domain::settings::Secret::new(ID_SECRET)),
        webhook_secret: Some(domain::settings::Secret::new(WEBHOOK_SECRET)),
        ..Config::default()
    }
}

/// Opens a small pool.
pub(crate) async fn connect(url: &str) -> DatabaseConnection {
    let mut options = ConnectOptions::new(url);
    options.max_connections(3).sqlx_logging(false);
    Database::connect(options).await.unwrap()
}

/// Gives an empty database the one type of shop that tests need.
pub(crate) async fn add_shop_type(conn: &DatabaseConnection) {
    let noodles = shop_type::Model {
        id: 1,
        code: "noodles".to_owned(),
        name: "Noodles".to_owned(),
        sort: 1,
        created_at: 0,
        version: 1,
    };
    shop_type::Entity::insert(noodles.into_active_model())
        .exec_without_returning(conn)
        .await
        .unwrap();
}

fn server_url(store: Store) -> String {
    let variable = match store {
        Store::MariaDb => "LM_TEST_MARIADB_URL",
        Store::Postgres => "LM_TEST_POSTGRES_URL",
        Store::Sqlite => unreachable!("SQLite has no server"),
    };
    shared(variable).trim_end_matches('/').to_owned()
}

fn admin_url(store: Store) -> String {
    let database = if store == Store::Postgres {
        "postgres"
    } else {
        "mysql"
    };
    format!("{}/{database}", server_url(store))
}

fn create_statement(store: Store, name: &str) -> String {
    match store {
        Store::MariaDb => {
            format!("CREATE DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
        }
        _ => format!("CREATE DATABASE {name}"),
    }
}

fn drop_statement(store: Store, name: &str) -> Option<String> {
    match store {
        Store::Sqlite => None,
        Store::MariaDb => Some(format!("DROP DATABASE IF EXISTS {name}")),
        Store::Postgres => Some(format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")),
    }
}

async fn run_on(url: &str, statement: &str) {
    let conn = connect(url).await;
    conn.execute_unprepared(statement).await.unwrap();
    conn.close().await.unwrap();
}
