//! The filter of known ids: made anew while it goes on answering.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use domain::infra::cache::{Cache, IdColumn, Kind};
use entity::shop;
use sea_orm::DbErr;

use super::Node;
use crate::support::app::TestApp;
use crate::support::sale::create_shop;
use crate::support::stores::{shared, unique};
use crate::support::wait::eventually;

const SOON: Duration = Duration::from_secs(30);
const HOUR: Duration = Duration::from_secs(3_600);

#[derive(Clone, Copy)]
struct Known;

impl Kind for Known {
    type Key = i64;
    type Value = String;
    const NAME: &'static str = "known_row";

    fn number(id: &i64) -> Option<i64> {
        Some(*id)
    }
}

/// Reads a row that is there or not, past every copy; answers whether it was looked for.
async fn is_looked_for(cache: &Cache, id: i64, looks: &Arc<AtomicUsize>) -> bool {
    let (before, counting) = (looks.load(Ordering::SeqCst), Arc::clone(looks));
    let load = move || {
        counting.fetch_add(1, Ordering::SeqCst);
        async { Ok::<_, DbErr>(None::<(i64, String)>) }
    };
    assert!(matches!(
        cache.get_or_load(Known, &id, 0, load).await,
        Ok(None)
    ));
    looks.load(Ordering::SeqCst) > before
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_that_is_made_anew_goes_on_answering_meanwhile() {
    let app = TestApp::start().await;
    let merchant = app.as_user(&app.merchant().await);
    let mut shops = Vec::new();
    for _ in 0..3 {
        let id = async_graphql::ID(create_shop(&merchant).await);
        shops.push(schema::scalars::parse_id(&id, "Shop", "id").unwrap());
    }
    // Old enough to be surely known.
    app.shift_clocks(HOUR);
    let infra = app.services().infra();
    let column = IdColumn::new(
        infra.db.clone(),
        infra.clock.clone(),
        shop::Entity,
        shop::Column::Id,
    );
    let node = Node::deaf(&shared("LM_TEST_REDIS_URL"), &format!("t{}", unique()));
    node.cache.know_ids(Known, column);
    let (cache, stop) = (node.cache.clone(), node.stop.clone());
    tokio::spawn(async move { cache.run(stop).await });
    let rebuilds = async || {
        let metrics = app.client().get("/metrics").await.text().await.unwrap();
        let name = "lifemate_cache_filter_rebuilds_total{kind=\"known_row\"} ";
        let count = metrics.lines().find_map(|line| line.strip_prefix(name));
        count.map_or(0, |count| count.parse::<u64>().unwrap())
    };
    eventually(SOON, "the first filter", async || rebuilds().await == 1).await;

    let (looks, mut never_was) = (Arc::new(AtomicUsize::new(0)), 0);
    for shop in &shops {
        assert!(is_looked_for(&node.cache, *shop, &looks).await);
    }
    app.shift_clocks(2 * HOUR);
    let mut wrong = 0;
    eventually(SOON, "the next filter", async || {
        for _ in 0..100 {
            never_was += 1;
            wrong += usize::from(is_looked_for(&node.cache, never_was, &looks).await);
        }
        rebuilds().await == 2
    })
    .await;
    // One in a hundred may be taken for a known one; without a filter all would be.
    assert!(never_was >= 1_000, "{never_was} asked for");
    assert!(
        wrong * 50 <= usize::try_from(never_was).unwrap(),
        "{wrong} of {never_was}"
    );
    for shop in &shops {
        node.cache.invalidate(Known, shop, 0).await;
        assert!(is_looked_for(&node.cache, *shop, &looks).await);
    }
    app.close().await;
}
