//! A server as the documentation of async-graphql has it, that answers `shop` from a constant. `make bench` loads it beside
//! ours. The address is in BENCH_ADDR.

mod query;

use async_graphql_axum::GraphQL;
use axum::Router;
use axum::routing::post_service;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let schema = query::builder().finish();
    let router = Router::new().route("/graphql", post_service(GraphQL::new(schema)));
    let listener = tokio::net::TcpListener::bind(std::env::var("BENCH_ADDR")?).await?;
    Ok(axum::serve(listener, router).await?)
}
