//! The database: how to connect, and the one way to write in a transaction. Knows no table.

use std::time::Duration;

use futures_util::future::BoxFuture;
use sea_orm::{
    ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DatabaseTransaction, DbBackend,
    DbErr, IsolationLevel, RuntimeErr, SqlErr, SqliteTransactionMode, Statement,
    TransactionOptions, TransactionTrait,
};

/// An exhausted pool answers after this long, so that a slow database shows as an error and not as a hang.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long one statement may take on a server; a longer one is a bug or a lock that will not come.
const STATEMENT_TIMEOUT_SECS: u32 = 10;
/// How long a statement waits for a row lock on a server. Below the statement's own limit, so that the error says why.
const LOCK_TIMEOUT_SECS: u32 = 5;
/// A transaction in which nothing is asked for so long is ended by the server: its process stands still, and the locks
/// that it holds would make everybody else stand still too. Transactions here ask one thing after the other.
const IDLE_TRANSACTION_SECS: u32 = 5;
/// How long anybody waits for what was asked, a transaction of many statements and its repeats included: far more than
/// these take, for the limits above speak first wherever the server is alive.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// How often a transaction that lost a race for locks runs again before its error is handed on.
const WRITE_TRIES: u32 = 6;

/// A pool of connections to one database. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Db {
    conn: DatabaseConnection,
}

impl Db {
    /// Connects and checks that commits of this database survive a power cut.
    ///
    /// # Errors
    /// When the database cannot be reached, or would lose committed rows.
    pub async fn connect(url: &str, max_connections: u32) -> Result<Self, DbErr> {
        let conn = Database::connect(options(url, max_connections)).await?;
        let db = Self { conn };
        db.require_durable_commits().await?;
        Ok(db)
    }

    /// For reads, and for writes of one statement.
    pub fn conn(&self) -> &DatabaseConnection {
        &self.conn
    }

    /// Which database this is.
    pub fn backend(&self) -> DbBackend {
        self.conn.get_database_backend()
    }

    /// Runs one writing transaction: IMMEDIATE on SQLite, READ COMMITTED elsewhere.
    ///
    /// It runs in a task of its own, because a database future that is dropped half-way can leave a poisoned
    /// connection in the pool. A transaction that lost a deadlock or a lock is rolled back and run again, so `step`
    /// must only touch the database. An error of `step` rolls back.
    ///
    /// # Errors
    /// The error of `step`, of the commit, or of the pool.
    pub async fn write<T, F>(&self, step: F) -> Result<T, DbErr>
    where
        T: Send + 'static,
        F: for<'a> Fn(&'a DatabaseTransaction) -> BoxFuture<'a, Result<T, DbErr>>
            + Send
            + Sync
            + 'static,
    {
        let db = self.clone();
        self.run(async move {
            let mut tries = 1;
            loop {
                match db.write_once(&step).await {
                    Err(e) if tries < WRITE_TRIES && is_contention(&e) => {
                        tokio::time::sleep(Duration::from_millis(u64::from(2_u32.pow(tries)) * 3))
                            .await;
                        tries += 1;
                    }
                    result => return result,
                }
            }
        })
        .await
    }

    /// Runs a database future in a task of its own, so that dropping the caller never drops it half-way. The caller
    /// waits for a minute at the most; the future goes on then, and what it writes may still come about.
    ///
    /// # Errors
    /// The future's own error, or one that says that it panicked or gave no answer.
    pub async fn run<T, F>(&self, future: F) -> Result<T, DbErr>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, DbErr>> + Send + 'static,
    {
        within(ANSWER_LIMIT, tokio::spawn(future)).await
    }

    /// The database server's own time in epoch milliseconds; `None` for SQLite, whose clock is this machine's.
    ///
    /// # Errors
    /// When the database cannot be asked.
    pub async fn server_time_ms(&self) -> Result<Option<i64>, DbErr> {
        let sql = match self.backend() {
            DbBackend::MySql => "SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED) AS now_ms",
            DbBackend::Postgres => {
                "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT) AS now_ms"
            }
            _ => return Ok(None),
        };
        let row = self
            .conn
            .query_one_raw(Statement::from_string(self.backend(), sql))
            .await?;
        row.map(|r| r.try_get("", "now_ms")).transpose()
    }

    /// Whether the database answers.
    pub async fn is_up(&self) -> bool {
        let db = self.clone();
        let asked =
            self.run(async move { db.conn.execute_unprepared("SELECT 1").await.map(|_| ()) });
        matches!(
            tokio::time::timeout(ACQUIRE_TIMEOUT, asked).await,
            Ok(Ok(()))
        )
    }

    /// Closes the pool; connections in use end first.
    pub async fn close(self) {
        if let Err(e) = self.conn.close().await {
            tracing::warn!(error = %e, "the database pool did not close cleanly");
        }
    }

    async fn write_once<T, F>(&self, step: &F) -> Result<T, DbErr>
    where
        F: for<'a> Fn(&'a DatabaseTransaction) -> BoxFuture<'a, Result<T, DbErr>>,
    {
        let txn = self.conn.begin_with_options(self.write_options()).await?;
        match step(&txn).await {
            Ok(value) => txn.commit().await.map(|()| value),
            Err(e) => {
                // The error of the step says more than that of the rollback.
                let _ = txn.rollback().await;
                Err(e)
            }
        }
    }

    fn write_options(&self) -> TransactionOptions {
        match self.backend() {
            DbBackend::Sqlite => TransactionOptions {
                sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
                ..TransactionOptions::default()
            },
            _ => TransactionOptions {
                isolation_level: Some(IsolationLevel::ReadCommitted),
                ..TransactionOptions::default()
            },
        }
    }

    /// An accepted order leaves Redis' outbox once its row is committed, so a commit must be on the disk.
    async fn require_durable_commits(&self) -> Result<(), DbErr> {
        let (sql, wanted) = match self.backend() {
            DbBackend::MySql => (
                "SELECT CAST(@@innodb_flush_log_at_trx_commit AS CHAR) AS setting",
                "1",
            ),
            DbBackend::Postgres => (
                "SELECT current_setting('synchronous_commit') AS setting",
                "on",
            ),
            _ => return Ok(()),
        };
        let row = self
            .conn
            .query_one_raw(Statement::from_string(self.backend(), sql))
            .await?;
        let setting: String = row
            .map(|r| r.try_get("", "setting"))
            .transpose()?
            .unwrap_or_default();
        if setting == wanted {
            return Ok(());
        }
        Err(DbErr::Custom(format!(
            "the database would lose committed rows in a power cut: {sql} gives {setting}, not {wanted}"
        )))
    }
}

/// Waits for a task, but not longer than `limit`: nothing tells a client that the other end of a half-open connection is
/// gone, and a worker would wait for ever.
async fn within<T>(
    limit: Duration,
    task: tokio::task::JoinHandle<Result<T, DbErr>>,
) -> Result<T, DbErr> {
    match tokio::time::timeout(limit, task).await {
        Ok(Ok(result)) => result,
        Ok(Err(e)) => Err(DbErr::Custom(format!("a database task ended early: {e}"))),
        Err(_) => Err(DbErr::Conn(RuntimeErr::Internal(format!(
            "the database gave no answer in {limit:?}"
        )))),
    }
}

/// Whether a unique constraint refused the write.
pub fn is_unique_violation(error: &DbErr) -> bool {
    matches!(error.sql_err(), Some(SqlErr::UniqueConstraintViolation(_)))
}

/// Whether a constraint on what rows may hold refused the write: a unique one, or a check.
pub fn is_constraint_violation(error: &DbErr) -> bool {
    let (DbErr::Exec(RuntimeErr::SqlxError(e)) | DbErr::Query(RuntimeErr::SqlxError(e))) = error
    else {
        return false;
    };
    e.as_database_error()
        .is_some_and(|e| e.is_unique_violation() || e.is_check_violation())
}

/// Whether the write only lost a race for locks, so that it may simply run again.
pub fn is_contention(error: &DbErr) -> bool {
    let (DbErr::Exec(RuntimeErr::SqlxError(e))
    | DbErr::Query(RuntimeErr::SqlxError(e))
    | DbErr::Conn(RuntimeErr::SqlxError(e))) = error
    else {
        return false;
    };
    let Some(e) = e.as_database_error() else {
        return false;
    };
    let code = e.code().unwrap_or_default();
    // PostgreSQL: serialization failure, deadlock, lock timeout. SQLite: busy and locked, with their extended codes.
    if matches!(
        &*code,
        "40001" | "40P01" | "55P03" | "5" | "6" | "261" | "517" | "262"
    ) {
        return true;
    }
    // MariaDB: deadlock, lock wait timeout; the code above is its SQLSTATE, the number is in the message's error.
    e.try_downcast_ref::<sea_orm::sqlx::mysql::MySqlDatabaseError>()
        .is_some_and(|m| matches!(m.number(), 1213 | 1205))
}

fn options(url: &str, max_connections: u32) -> ConnectOptions {
    let mut options = ConnectOptions::new(url);
    options
        .max_connections(max_connections)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .connect_timeout(Duration::from_secs(5))
        .sqlx_logging(false)
        .map_sqlx_sqlite_opts(|o| {
            o.create_if_missing(true)
                .busy_timeout(Duration::from_secs(10))
                .pragma("journal_mode", "WAL")
                .pragma("synchronous", "FULL")
        })
        .map_sqlx_mysql_pool_opts(|pool| {
            pool.after_connect(|conn, _| {
                Box::pin(async move {
                    use sea_orm::sqlx::Executor;
                    let locks =
                        format!("SET SESSION innodb_lock_wait_timeout = {LOCK_TIMEOUT_SECS}");
                    conn.execute(sea_orm::sqlx::AssertSqlSafe(locks)).await?;
                    // MariaDB only; MySQL says that it does not know the names, and has no such limits.
                    let mariadb = format!(
                        "SET SESSION max_statement_time = {STATEMENT_TIMEOUT_SECS}, \
                         idle_transaction_timeout = {IDLE_TRANSACTION_SECS}"
                    );
                    let _ = conn.execute(sea_orm::sqlx::AssertSqlSafe(mariadb)).await;
                    Ok(())
                })
            })
        })
        .map_sqlx_postgres_opts(|o| {
            o.options([
                ("statement_timeout", format!("{STATEMENT_TIMEOUT_SECS}s")),
                ("lock_timeout", format!("{LOCK_TIMEOUT_SECS}s")),
                (
                    "idle_in_transaction_session_timeout",
                    format!("{IDLE_TRANSACTION_SECS}s"),
                ),
            ])
        });
    options
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::infra::fault::{Fault, database_fault};

    #[tokio::test]
    async fn a_database_that_gives_no_answer_is_waited_for_a_while_and_counts_as_away() {
        let silent = tokio::spawn(std::future::pending::<Result<(), DbErr>>());
        let error = within(Duration::from_millis(20), silent).await.unwrap_err();
        assert_eq!(database_fault(&error), Fault::Unavailable, "{error}");
        let answered = tokio::spawn(async { Ok(7) });
        assert_eq!(within(ANSWER_LIMIT, answered).await.unwrap(), 7);
    }
}
