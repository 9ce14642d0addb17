//! The server as a library, so that tests can start it in their own process. The rules of the product are `domain`,
//! their GraphQL face is `schema`.

// The compiler lays out the futures of the schema's roots one in another, a level for each concept that has a part in them.
#![recursion_limit = "512"]

pub mod commands;
pub mod config;
pub mod drill;
pub mod embedded;
pub mod server;
mod telemetry;
mod transport;
mod workers;
