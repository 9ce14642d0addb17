//! What nothing names is taken away after a day, and what something names never.

use std::time::Duration;

use domain::uploads::ImageId;
use domain::users::{Role, Session, UserId};
use entity::image::{self as table, ImageState};
use sea_orm::{ActiveEnum, EntityTrait, IntoActiveModel, QuerySelect};

use super::{PNG, file, files, known, upload};
use crate::support::app::TestApp;
use crate::support::stores::Store;

const HOUR: Duration = Duration::from_secs(3_600);

async fn numbers(app: &TestApp) -> Vec<ImageId> {
    let rows = table::Entity::find().all(app.db()).await.unwrap();
    rows.into_iter().map(|row| ImageId(row.id)).collect()
}

async fn the_unused_go_after_a_day(store: Store) {
    let app = TestApp::build().on(store).without_workers().start().await;
    let user = app.user().await;
    let client = app.as_user(&user);
    let session = Session::of_command(UserId(user.id), Role::User);
    let uploads = app.services().uploads.clone();
    let used = upload(&client, &file(4, 4, PNG)).await;
    let ids = numbers(&app).await;
    uploads.require_owned(&session, &ids, &[]).await.unwrap();
    let unused = upload(&client, &file(4, 4, PNG)).await;
    // An upload that was broken off before its object was there.
    let row = table::Entity::find().one(app.db()).await.unwrap().unwrap();
    let broken_off = table::Model {
        id: 1,
        object_key: "0".repeat(32),
        state: ImageState::Storing,
        ..row
    };
    table::Entity::insert(broken_off.into_active_model())
        .exec_without_returning(app.db())
        .await
        .unwrap();

    assert_eq!(uploads.sweep().await.unwrap(), 0);
    app.shift_clocks(2 * HOUR);
    assert_eq!(
        uploads.sweep().await.unwrap(),
        1,
        "the one that was broken off"
    );
    app.shift_clocks(21 * HOUR);
    assert_eq!(uploads.sweep().await.unwrap(), 0);
    assert_eq!(app.client().get(&unused.path()).await.status(), 200);
    app.shift_clocks(2 * HOUR);
    assert_eq!(uploads.sweep().await.unwrap(), 1);
    assert_eq!(app.client().get(&unused.path()).await.status(), 404);
    app.shift_clocks(10_000 * HOUR);
    assert_eq!(uploads.sweep().await.unwrap(), 0);
    assert_eq!(app.client().get(&used.path()).await.status(), 200);
    assert_eq!((known(&app).await, files(&app)), (1, 1));
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_unused_go_after_a_day_on_mariadb() {
    the_unused_go_after_a_day(Store::MariaDb).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_unused_go_after_a_day_on_sqlite() {
    the_unused_go_after_a_day(Store::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_unused_go_after_a_day_on_postgres() {
    the_unused_go_after_a_day(Store::Postgres).await;
}

/// Many pictures that are a day old; some are taken into use in the very moment in which two sweeps run.
async fn a_sweep_and_a_use_at_once_never_lose_a_picture(store: Store) {
    let app = TestApp::build().on(store).without_workers().start().await;
    let user = app.user().await;
    upload(&app.as_user(&user), &file(4, 4, PNG)).await;
    let row = table::Entity::find().one(app.db()).await.unwrap().unwrap();
    let copies = (1..=60).map(|id| {
        let copy = table::Model {
            id,
            object_key: format!("{id:032x}"),
            ..row.clone()
        };
        copy.into_active_model()
    });
    table::Entity::insert_many(copies)
        .exec_without_returning(app.db())
        .await
        .unwrap();
    app.shift_clocks(25 * HOUR);
    let session = Session::of_command(UserId(user.id), Role::User);
    let uploads = app.services().uploads.clone();
    let sweeps = [0, 1].map(|_| {
        let uploads = uploads.clone();
        tokio::spawn(async move { uploads.sweep().await.unwrap() })
    });
    let mut kept = Vec::new();
    for id in (1..=60).rev() {
        let wanted = [ImageId(id)];
        if uploads.require_owned(&session, &wanted, &[]).await.is_ok() {
            kept.push(id);
        }
    }
    for sweep in sweeps {
        sweep.await.unwrap();
    }
    uploads.sweep().await.unwrap();
    let mut left: Vec<(i64, String)> = table::Entity::find()
        .select_only()
        .columns([table::Column::Id, table::Column::State])
        .into_tuple()
        .all(app.db())
        .await
        .unwrap();
    left.sort_unstable();
    kept.sort_unstable();
    let kept: Vec<_> = kept
        .into_iter()
        .map(|id| (id, ImageState::Kept.to_value()))
        .collect();
    assert_eq!(left, kept);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_and_a_use_at_once_never_lose_a_picture_on_mariadb() {
    a_sweep_and_a_use_at_once_never_lose_a_picture(Store::MariaDb).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_and_a_use_at_once_never_lose_a_picture_on_postgres() {
    a_sweep_and_a_use_at_once_never_lose_a_picture(Store::Postgres).await;
}
