//! The server as a library, so that tests can start it in their own process. The rules of the product are `domain`,
//! their GraphQL face is `schema`.

pub mod commands;
pub mod config;
pub mod drill;
pub mod embedded;
pub mod server;
mod telemetry;
mod transport;
mod workers;
