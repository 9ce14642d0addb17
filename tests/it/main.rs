//! Everything that is proved through the API, on real stores; and the rules of the house.
//! `make test` brings the stores; `scripts/services start` brings them for a single run.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by a panic, in its support too"
)]

mod cache;
mod chats;
mod claims;
mod config;
mod damage;
mod drill;
mod embedded;
mod faults;
mod follows;
mod house;
mod limits;
mod live;
mod locks;
mod migrations;
mod nodes;
mod notifications;
mod offers;
mod orders_api;
mod payments;
mod places;
mod processes;
mod reconcile;
mod redeem;
mod reviews;
mod sales;
mod schema;
mod seckill;
mod shops;
mod sign_ins;
mod spine;
mod stores;
mod support;
mod switches;
mod transport;
mod uploads;
mod users;
mod visits;
mod vouchers;
