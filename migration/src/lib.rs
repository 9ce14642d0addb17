//! The steps that make the tables, one a file, up and down. Knows no entity and no rule.

#![expect(
    elided_lifetimes_in_paths,
    reason = "the trait of sea-orm-migration is written without them"
)]

mod m20261201_000001_create_users;
mod m20261201_000002_create_shops;
mod m20261201_000003_create_vouchers;
mod m20261201_000004_create_orders;
mod m20261201_000005_create_stock_ledger;
mod m20261201_000006_create_payments;
mod m20261201_000007_create_leases;
mod m20261201_000008_create_dead_letters;
mod m20261201_000009_create_switches;
mod m20261201_000010_create_follows;
mod m20261201_000011_create_blogs;
mod m20261201_000012_create_images;
mod m20261201_000013_create_sign_ins;
mod m20261201_000014_create_statistics;
mod m20261201_000015_create_notifications;
mod m20261201_000016_create_chats;
mod m20261201_000017_create_feeds;
mod m20261201_000018_create_waitlists;
mod m20261201_000019_create_offers;
mod m20261201_000020_create_reviews;
mod m20261201_000021_add_sale_indexes;
mod tables;

pub use sea_orm_migration::MigratorTrait;
use sea_orm_migration::{MigrationTrait, async_trait};

/// Runs the steps in their order.
#[derive(Debug)]
pub struct Migrator;

#[async_trait::async_trait]
impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![
            Box::new(m20261201_000001_create_users::Migration),
            Box::new(m20261201_000002_create_shops::Migration),
            Box::new(m20261201_000003_create_vouchers::Migration),
            Box::new(m20261201_000004_create_orders::Migration),
            Box::new(m20261201_000005_create_stock_ledger::Migration),
            Box::new(m20261201_000006_create_payments::Migration),
            Box::new(m20261201_000007_create_leases::Migration),
            Box::new(m20261201_000008_create_dead_letters::Migration),
            Box::new(m20261201_000009_create_switches::Migration),
            Box::new(m20261201_000010_create_follows::Migration),
            Box::new(m20261201_000011_create_blogs::Migration),
            Box::new(m20261201_000012_create_images::Migration),
            Box::new(m20261201_000013_create_sign_ins::Migration),
            Box::new(m20261201_000014_create_statistics::Migration),
            Box::new(m20261201_000015_create_notifications::Migration),
            Box::new(m20261201_000016_create_chats::Migration),
            Box::new(m20261201_000017_create_feeds::Migration),
            Box::new(m20261201_000018_create_waitlists::Migration),
            Box::new(m20261201_000019_create_offers::Migration),
            Box::new(m20261201_000020_create_reviews::Migration),
            Box::new(m20261201_000021_add_sale_indexes::Migration),
        ]
    }
}
