//! The way of a note to its followers: nothing at publishing, then batches that survive their worker, active followers
//! first where there are very many; and readers who see the note all the while.

use std::time::Duration;

use domain::feeds::ACTIVE_FOR;
use domain::users::UserId;
use entity::{blog_fanout, feed_outbox, follow, follow_count};
use futures_util::future::join_all;
use sea_orm::{ConnectionTrait, EntityTrait, IntoActiveModel, PaginatorTrait};

use super::{carry_all, global, inbox, insert_under_way, publish, reference, set_follow, walk};
use crate::support::app::TestApp;
use crate::support::people::TestUser;
use crate::support::wait::eventually;

/// Followers of the author: three batches, the last one short.
const FANS: i64 = 2_500;

/// Makes `fans` follow an author, long ago and one after the other; those among them that have an account at `places`.
async fn many_fans(app: &TestApp, author: i64, places: &[(i64, &TestUser)]) {
    let rows: Vec<_> = (0..FANS)
        .map(|n| {
            let known = places.iter().find(|(place, _)| *place == n);
            follow::Model {
                id: 1_000 + n,
                follower_id: known.map_or(1_000_000 + n, |(_, user)| user.id),
                followee_id: author,
                seq: 1,
                // Some at the same time: the place in the walk is the number too.
                created_at: 1_780_000_000_000 + n / 3,
            }
        })
        .collect();
    for rows in rows.chunks(500) {
        let rows = rows.iter().cloned().map(IntoActiveModel::into_active_model);
        follow::Entity::insert_many(rows)
            .exec_without_returning(app.db())
            .await
            .unwrap();
    }
    let mut counts = vec![(author, FANS, 0, 0)];
    counts.extend(places.iter().map(|(_, user)| (user.id, 0, 1, 1)));
    for (user_id, followers, following, seq) in counts {
        let row = follow_count::Model {
            user_id,
            followers,
            following,
            seq,
        };
        follow_count::Entity::insert(row.into_active_model())
            .exec_without_returning(app.db())
            .await
            .unwrap();
    }
}

async fn way(app: &TestApp) -> blog_fanout::Model {
    let mut ways = blog_fanout::Entity::find().all(app.db()).await.unwrap();
    assert_eq!(ways.len(), 1);
    ways.remove(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn publishing_does_nothing_per_follower_and_a_worker_that_dies_is_taken_over_where_it_was() {
    let mut app = TestApp::build().without_workers().start().await;
    app.second_node().await;
    let people = app.users(4).await;
    let (author, readers) = people.split_first().unwrap();
    let places = [(3, &readers[0]), (1_500, &readers[1]), (2_400, &readers[2])];
    many_fans(&app, author.id, &places).await;
    for reader in readers {
        assert!(walk(&app.as_user(reader), 10).await.is_empty());
    }
    let note = publish(&app.as_user(author)).await;
    let begun = way(&app).await;
    assert_eq!((begun.step, begun.done_at), (None, None));
    let redis = app.services().infra().cache.redis();
    let held = async || {
        join_all(readers.iter().map(|r| inbox(redis, r.id)))
            .await
            .concat()
            .len()
    };
    // No inbox has it, and everybody sees it.
    let seen = async || {
        for reader in readers {
            assert_eq!(
                walk(&app.as_user(reader), 10).await,
                std::slice::from_ref(&note)
            );
        }
    };
    assert_eq!(held().await, 0);
    seen().await;

    // One batch; then the worker dies in the middle of the next one.
    let feeds = &app.services().feeds;
    assert_eq!(feeds.fan_out_due().await.unwrap(), 1);
    assert_eq!(held().await, 1);
    let step = way(&app).await.step.unwrap();
    assert!(step.contains("\"id\":1999"), "{step}");
    let until = app.services().infra().clock.now_ms() + 10_000;
    let claimed = step.replace("\"claimed_until\":0", &format!("\"claimed_until\":{until}"));
    assert_ne!(claimed, step);
    let dies = format!("UPDATE blog_fanouts SET step = '{claimed}'");
    app.db().execute_unprepared(&dies).await.unwrap();
    assert_eq!(feeds.fan_out_due().await.unwrap(), 0, "it may still work");
    seen().await;
    app.shift_clocks(Duration::from_secs(11));
    assert_eq!(feeds.fan_out_due().await.unwrap(), 1);
    assert_eq!(held().await, 2);
    seen().await;
    carry_all(&app).await;
    assert_eq!(held().await, 3);
    assert!(way(&app).await.done_at.is_some());
    seen().await;
    assert_eq!(feeds.fan_out_due().await.unwrap(), 0);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_workers_carry_many_notes_together() {
    let mut app = TestApp::start().await;
    let second = app.second_node().await;
    let people = app.users(8).await;
    let (authors, readers) = people.split_at(2);
    for reader in readers {
        for author in authors {
            set_follow(&app.as_user(reader), "follow", author).await;
        }
        assert!(walk(&second.as_user(reader), 10).await.is_empty());
    }
    let clients = [app.as_user(&authors[0]), second.as_user(&authors[1])];
    let notes = join_all((0..30).map(|n| publish(&clients[n % 2]))).await;
    // Readers need not wait for the workers.
    let expected = reference(&app, readers[0].id).await;
    assert_eq!(expected.len(), notes.len());
    for reader in readers {
        assert_eq!(walk(&second.as_user(reader), 7).await, expected);
    }
    eventually(Duration::from_secs(20), "the workers", async || {
        let ways = blog_fanout::Entity::find().all(app.db()).await.unwrap();
        ways.iter().all(|way| way.done_at.is_some())
    })
    .await;
    let redis = app.services().infra().cache.redis();
    for reader in readers {
        assert_eq!(inbox(redis, reader.id).await, expected);
        assert_eq!(walk(&app.as_user(reader), 7).await, expected);
    }
    let metrics = app.client().get("/metrics").await.text().await.unwrap();
    for name in [
        "lifemate_feeds_fanouts_total",
        "lifemate_feeds_pushes_total",
        "lifemate_feeds_fanout_pending",
        "lifemate_feeds_fanout_lag_ms",
    ] {
        assert!(metrics.contains(name), "{name}");
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_was_away_pulls_what_was_pushed_to_the_active_only() {
    let app = TestApp::build()
        .without_workers()
        .config(|c| c.feed_push_max_followers = 2)
        .start()
        .await;
    let people = app.users(6).await;
    let (star, plain, readers) = (&people[0], &people[1], &people[2..]);
    // The star has four followers, more than the threshold; the other author has two.
    for reader in readers {
        set_follow(&app.as_user(reader), "follow", star).await;
    }
    for reader in [&readers[0], &readers[3]] {
        set_follow(&app.as_user(reader), "follow", plain).await;
    }
    let (star, plain) = (app.as_user(star), app.as_user(plain));
    publish(&star).await;
    publish(&plain).await;
    carry_all(&app).await;
    let feeds = &app.services().feeds;
    let feed = async |reader: &TestUser| {
        let notes = feeds.page(UserId(reader.id), None, 50).await.unwrap();
        let ids = notes.iter().map(|note| global("Blog", note.id));
        ids.collect::<Vec<_>>()
    };
    for reader in readers {
        assert_eq!(feed(reader).await, reference(&app, reader.id).await);
    }

    // The first two come back after six days, the others after nine; by then the star has published again.
    let day = Duration::from_secs(24 * 3_600);
    app.shift_clocks(6 * day);
    feed(&readers[0]).await;
    feed(&readers[1]).await;
    app.shift_clocks(2 * day);
    let x = insert_under_way(&app, people[0].id, 1_001).await;
    app.shift_clocks(Duration::from_secs(1));
    let y = insert_under_way(&app, people[1].id, 1_002).await;
    app.shift_clocks(Duration::from_secs(1));
    let z = insert_under_way(&app, people[0].id, 1_003).await;
    carry_all(&app).await;
    let outbox = feed_outbox::Entity::find().count(app.db()).await.unwrap();
    assert_eq!(outbox, 3, "the star's notes, and nobody else's");
    let redis = app.services().infra().cache.redis();
    let newest = async |reader: &TestUser| {
        let mut held = inbox(redis, reader.id).await;
        held.truncate(3);
        held
    };
    assert_eq!(
        newest(&readers[0]).await,
        [z.clone(), y.clone(), x.clone()],
        "pushed to whoever was seen"
    );
    assert_eq!(newest(&readers[1]).await[..2], [z.clone(), x.clone()]);
    let away = newest(&readers[3]).await;
    assert!(away.contains(&y) && !away.contains(&x) && !away.contains(&z));
    let away = newest(&readers[2]).await;
    assert!(!away.contains(&x) && !away.contains(&z));

    app.shift_clocks(day);
    for reader in readers {
        let expected = reference(&app, reader.id).await;
        assert_eq!(feed(reader).await, expected, "in the order as if pushed");
        assert_eq!(inbox(redis, reader.id).await, expected, "merged for good");
    }
    // Whoever came back is pushed to again.
    let last = insert_under_way(&app, people[0].id, 1_004).await;
    carry_all(&app).await;
    for reader in readers {
        assert_eq!(newest(reader).await[0], last);
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_note_is_visible_on_another_node_at_once() {
    let mut app = TestApp::start().await;
    let second = app.second_node().await;
    let people = app.users(2).await;
    let reader = second.as_user(&people[0]);
    set_follow(&reader, "follow", &people[1]).await;
    let author = app.as_user(&people[1]);
    for _ in 0..20 {
        let note = publish(&author).await;
        // Not within two seconds: with the next look.
        assert_eq!(walk(&reader, 50).await[0], note);
    }
    assert_eq!(ACTIVE_FOR, Duration::from_secs(7 * 24 * 3_600));
    app.finish().await;
}
