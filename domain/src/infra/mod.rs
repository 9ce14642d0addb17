//! What the concepts stand on: database, Redis, bus, time, ids. Knows no concept.

pub mod address;
pub mod bells;
pub mod bus;
pub mod cache;
pub mod clock;
pub mod db;
pub mod events;
pub mod fault;
pub mod ids;
pub mod leases;
pub mod locks;
pub mod lua;
pub mod redis;
pub mod text;
pub mod turns;
pub mod zones;

use sea_orm::sea_query::IntoIden;

/// The connections and sources that every concept is given. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Infra {
    /// The database.
    pub db: db::Db,
    /// The Redis that sells, and holds sessions.
    pub redis: redis::Redis,
    /// What everybody sees, for reading only.
    pub cache: cache::Cache,
    /// The time.
    pub clock: clock::Clock,
    /// New ids.
    pub ids: ids::Ids,
    /// What carries orders to the writer.
    pub bus: bus::Bus,
}

impl Infra {
    /// A column of ids made by these ids and this clock.
    pub fn id_column(&self, table: impl IntoIden, column: impl IntoIden) -> cache::IdColumn {
        cache::IdColumn::new(self.db.clone(), self.clock.clone(), table, column)
    }
}
