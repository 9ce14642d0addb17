//! What a reader pays when the row is in the memory of his node: through the door that readers use, counted as in the
//! server.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use domain::infra::cache::{Cache, Kind};
use domain::infra::redis::Redis;
use metrics_exporter_prometheus::PrometheusBuilder;
use sea_orm::DbErr;

#[derive(Clone, Copy)]
struct Row;

impl Kind for Row {
    type Key = i64;
    type Value = String;
    const NAME: &'static str = "row";
    /// Longer than the measurement.
    const LOCAL_LIFE: Duration = Duration::from_secs(3_600);

    fn number(id: &i64) -> Option<i64> {
        Some(*id)
    }
}

async fn read(cache: &Cache, id: i64) {
    let load = || async { Ok::<_, DbErr>(Some((1, "a row".repeat(100)))) };
    let found = cache.get_or_load(Row, &id, 0, load).await;
    assert!(black_box(found).is_ok_and(|row| row.is_some()));
}

fn local_hit(c: &mut Criterion) {
    PrometheusBuilder::new()
        .install_recorder()
        .expect("no recorder before this one");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let cache = runtime.block_on(async {
        // Nobody listens there: rows come from their loader, once.
        let redis = Redis::new("redis://127.0.0.1:1", "bench").expect("a well-formed address");
        let cache = Cache::new(redis).expect("a memory tier");
        for id in 0..1_000 {
            read(&cache, id).await;
        }
        cache
    });
    let mut id = 0;
    c.bench_function("cache_local_hit", |bencher| {
        bencher.to_async(&runtime).iter(|| {
            id = (id + 7) % 1_000;
            let cache = &cache;
            async move { read(cache, id).await }
        });
    });
}

criterion_group!(benches, local_hit);
criterion_main!(benches);
