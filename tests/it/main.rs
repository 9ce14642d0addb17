//! Everything that is proved through the API, on real stores; and the rules of the house.
//! `make test` brings the stores; `scripts/services start` brings them for a single run.

// The compiler lays out the futures of the schema's roots one in another, a level for each concept that has a part in them.
#![recursion_limit = "512"]
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by a panic, in its support too"
)]

mod blogs;
mod cache;
mod chats;
mod claims;
mod config;
mod damage;
mod drill;
mod embedded;
mod faults;
mod feeds;
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
mod reminders;
mod reviews;
mod sales;
mod schema;
mod seckill;
mod shops;
mod sign_ins;
mod sockets;
mod spine;
mod statistics;
mod stores;
mod support;
mod switches;
mod transport;
mod uploads;
mod users;
mod visits;
mod vouchers;
mod waitlist;
mod wires;
